"""Verifiers that look at the way to an answer: its first wrong step, and a rubric."""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from rlvr.verifiers import judges
from rlvr.verifiers import number_answers
from rlvr.verifiers import verdict

FIRST_ERROR = 'first_error'  # the offset's name
JUDGED = ('all', 'right', 'wrong')

_FORM = re.compile(r'[0-9+\-*/=(). \n]*')


def judged_steps(
    task: Mapping[str, Any],
    text: str,
    *,
    base: Callable[..., verdict.Verdict] = number_answers.last_number,
    judge: Callable[..., int] = judges.arithmetic,
    judged: str = 'all',
    correct_at: float = 1.0,
    boundary: str = judges.BOUNDARY,
) -> verdict.Verdict:
  """The verdict of `base`, and where the first wrong step begins.

  Args:
    task: what `base` needs; the last message is the problem, 'solution' or
      'answer' the judge's reference.
    text: what the policy wrote.
    base: the verifier of the outcome.
    judge: a part of JUDGES; one that costs something is called once a text.
    judged: the answers that the judge is asked about: 'all', 'right' or 'wrong'
      ones. The others have no place, and cost no call.
    correct_at: outcome from which an answer is right.
    boundary: a regular expression of what ends a step, see `judges.split_steps`.

  Returns:
    base's verdict with offset 'first_error': the characters before the step, -1
    where no step is wrong, none was judged or the verdict is ungraded.

  Raises:
    ValueError: an unknown `judged`.
  """
  if judged not in JUDGED:
    raise ValueError(f'judged_steps: judged={judged!r} must be one of {", ".join(JUDGED)}.')
  outcome = base(task, text)
  offset = verdict.NOWHERE
  right = outcome.reward >= correct_at
  if outcome.graded and judged in ('all', 'right' if right else 'wrong'):
    steps = judges.split_steps(text, boundary=boundary)
    reference = str(task.get('solution', task.get('answer', '')))
    index = judge(_problem(task), reference, [step for _, step in steps])
    if 0 <= index < len(steps):
      offset = steps[index][0]
  return dataclasses.replace(outcome, offsets={**outcome.offsets, FIRST_ERROR: offset})


def arithmetic_rubric(
    task: Mapping[str, Any],
    text: str,
    *,
    base: Callable[..., verdict.Verdict] = number_answers.last_number,
    judge: Callable[..., int] = judges.arithmetic,
) -> verdict.Verdict:
  """The verdict of `base`, and which criteria of a good derivation the text meets.

  Args:
    task: what `base` needs; the last message is the problem, 'answer' and, where
      it has one, 'solution' the reference.
    text: what the policy wrote.
    base: the verifier of the outcome.
    judge: a part of JUDGES.

  Returns:
    base's verdict with a column of 0 or 1 a criterion, in the order of their
    names: 'answer' (right), 'brief' (no longer than the reference), 'form'
    (nothing but numbers, signs and white space, at least one character), 'guess'
    (a pitfall: no step in front of the answer), 'sound' (no step is wrong, and
    there are two), 'start' (the first step is not wrong).
  """
  outcome = base(task, text)
  steps = [step for _, step in judges.split_steps(text)]
  wrong = judge(_problem(task), str(task.get('answer', '')), steps)
  reference = str(task.get('solution', task.get('answer', '')))
  met = {
      'answer': outcome.reward >= 1,
      'brief': 0 < len(text.strip()) <= len(reference),
      'form': bool(text.strip()) and _FORM.fullmatch(text) is not None,
      'guess': len(steps) < 2,
      'sound': wrong == judges.NONE and len(steps) > 1,
      'start': bool(steps) and wrong != 0,
  }
  columns = {name: float(value) for name, value in met.items()}
  return dataclasses.replace(outcome, columns={**outcome.columns, **columns})


def _problem(task):
  messages = task.get('messages') or [{'content': ''}]
  return str(messages[-1]['content'])
