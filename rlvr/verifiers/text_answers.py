"""Answers that are words: compared whole, after normalisation."""

from collections.abc import Mapping
from typing import Any

from rlvr.verifiers import extract
from rlvr.verifiers import verdict


def exact(task: Mapping[str, Any], text: str, *, ignore_case: bool = True) -> verdict.Verdict:
  r"""1 where the whole answer equals the reference, else 0.

  The answer is the last box or '####' line where the text has one, else the
  whole text: 'A or B or C' does not equal 'A', and '' equals nothing. Two plain
  numbers are compared as values, so that '1,000' equals '1000'.

  Args:
    task: 'answer' is the reference, read the same way as the text.
    text: what the policy wrote.
    ignore_case: compare without case.

  Returns:
    Status 'ok', 'no_answer' (blank) or 'bad_gold'.
  """
  gold = extract.gold_text(task)
  if gold is None:
    return verdict.failed(verdict.BAD_GOLD)
  answer = extract.marked(text) or text
  shown = extract.normalised(answer, ignore_case=ignore_case)
  if not shown:
    return verdict.failed(verdict.NO_ANSWER)
  gold = extract.marked(gold) or gold
  same = shown == extract.normalised(gold, ignore_case=ignore_case)
  value = extract.number(gold)
  return verdict.graded_as(same or (value is not None and extract.number(answer) == value), shown)
