"""Answers that are one number: compared as exact values, near misses pay nothing."""

import math
from collections.abc import Mapping
from typing import Any

from rlvr.verifiers import extract
from rlvr.verifiers import verdict


def last_number(
    task: Mapping[str, Any], text: str, *, relative_tolerance: float = 0.0,
) -> verdict.Verdict:
  """1 where the last number in the text equals the reference, else 0.

  Args:
    task: 'answer' is a number, or a solution that ends in one.
    text: what the policy wrote; 'x = 3 so 7' is 7, '1,000' is 1000, '-5' is not 5.
    relative_tolerance: largest |answer - reference| / |reference| that is paid;
      0 compares decimal values exactly, without floats.

  Returns:
    Status 'ok', 'no_answer' (no digit in the text) or 'bad_gold'.
  """
  return _compare(task, extract.last_number(text), relative_tolerance)


def numeric(
    task: Mapping[str, Any], text: str, *, relative_tolerance: float = 0.0,
) -> verdict.Verdict:
  """1 where the marked answer is one number that equals the reference, else 0.

  Stricter than `last_number`: the last box or '####' line, or the whole text
  where nothing is marked, must be a number and nothing else.

  Args:
    task: 'answer' is a number, or a solution that ends in one.
    text: what the policy wrote; '#### $72' and '#### 72.' are 72.
    relative_tolerance: as in `last_number`.

  Returns:
    Status 'ok', 'no_answer' (the answer is not one number) or 'bad_gold'.
  """
  return _compare(task, extract.number(extract.marked(text) or text), relative_tolerance)


def _compare(task, answer, relative_tolerance):
  gold = extract.gold_text(task)
  if gold is not None:
    gold = extract.last_number(extract.marked(gold) or gold)
  if gold is None:
    return verdict.failed(verdict.BAD_GOLD)
  if answer is None:
    return verdict.failed(verdict.NO_ANSWER)
  near = relative_tolerance > 0 and math.isclose(
      float(answer), float(gold), rel_tol=0.0, abs_tol=relative_tolerance * abs(float(gold)))
  return verdict.graded_as(answer == gold or near, answer)
