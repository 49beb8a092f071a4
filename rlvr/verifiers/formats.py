"""Rewards for the form of an answer, and for what stands inside the form."""

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from rlvr.verifiers import text_answers
from rlvr.verifiers import verdict


def format_tags(
    task: Mapping[str, Any], text: str, *, tags: Sequence[str] = ('think', 'answer'),
) -> verdict.Verdict:
  """1 where the whole text is <a>...</a><b>...</b>, each tag exactly once, else 0.

  Anchored at both ends: only white space may stand outside the tags, and each
  opening and closing tag stands once in the whole text, so ten repeated pairs,
  or a pair quoted inside the reasoning, give 0.

  Args:
    task: not looked at; the form does not depend on the answer.
    text: what the policy wrote.
    tags: the tags, in order.

  Returns:
    Column 'format' equals the reward; status 'ok', or 'no_answer' for a blank text.
  """
  del task
  if not text.strip():
    return verdict.failed(verdict.NO_ANSWER, columns={'format': 0.0})
  right = float(_contents(text, tags) is not None)
  return verdict.Verdict(right, {'format': right})


def tagged_answer(
    task: Mapping[str, Any],
    text: str,
    *,
    tags: Sequence[str] = ('think', 'answer'),
    verifier: Callable[..., verdict.Verdict] = text_answers.exact,
    format_weight: float = 0.0,
) -> verdict.Verdict:
  """Grades what the last tag holds, and only where the whole form is right.

  reward = format_weight * format + (1 - format_weight) * correct

  Args:
    task: what `verifier` needs.
    text: what the policy wrote.
    tags: the tags, in order; the last holds the answer.
    verifier: grades the content of the last tag.
    format_weight: in [0, 1]; the part of the reward paid for the form alone.

  Returns:
    Columns 'format' and 'correct'. A wrong form is 0 with status 'no_answer';
    a form that is right keeps its pay when the answer is wrong or unreadable,
    unless the verdict on the answer is ungraded.

  Raises:
    ValueError: format_weight outside [0, 1].
  """
  if not 0 <= format_weight <= 1:
    raise ValueError(f'format_weight is {format_weight}; it must be in [0, 1].')
  contents = _contents(text, tags)
  inner = verifier(task, '' if contents is None else contents[-1])
  columns = {'format': float(contents is not None), 'correct': 0.0}
  if not inner.graded:
    return verdict.failed(inner.status, inner.answer, columns)
  if contents is None:
    return verdict.failed(verdict.NO_ANSWER, columns=columns)
  columns['correct'] = inner.reward
  reward = format_weight + (1 - format_weight) * inner.reward
  # A verdict other than 'ok' pays nothing, so a form that is paid says 'ok'.
  return verdict.Verdict(reward, columns, verdict.OK if reward else inner.status, inner.answer)


def _contents(text, tags):
  """What each tag holds, in order, or None where the form is not exactly right."""
  pieces = re.split('(' + '|'.join(f'</?{re.escape(tag)}>' for tag in tags) + ')', text)
  expected = [bracket + tag + '>' for tag in tags for bracket in ('<', '</')]
  if pieces[1::2] != expected or any(outside.strip() for outside in pieces[::4]):
    return None
  return [piece.strip() for piece in pieces[2::4]]
