"""Answers of several parts, each with a reward of its own."""

from collections.abc import Mapping
from typing import Any

from rlvr.verifiers import extract
from rlvr.verifiers import text_answers
from rlvr.verifiers import verdict


def answer_parts(
    task: Mapping[str, Any], text: str, *, separator: str = ';') -> verdict.Verdict:
  """Each part of the reference against the part of the text at its place; the reward is the mean.

  Args:
    task: 'answer' is the parts joined by the separator, as '7;12'.
    text: what the policy wrote, split likewise; a part that is missing is wrong,
      one too many is not looked at.
    separator: between parts; not blank.

  Returns:
    Columns 'part_1', 'part_2', ..., each 1 or 0 by `exact`. Status 'ok',
    'no_answer' (blank) or 'bad_gold' (no reference, or a part of it is blank).

  Raises:
    ValueError: separator is blank.
  """
  if not separator.strip():
    raise ValueError(f'separator is {separator!r}; it must not be blank.')
  gold = extract.gold_text(task)
  parts = [] if gold is None else gold.split(separator)
  if not parts or not all(part.strip() for part in parts):
    return verdict.failed(verdict.BAD_GOLD)
  given = text.split(separator, len(parts))[:len(parts)]
  given += [''] * (len(parts) - len(given))
  inner = [text_answers.exact({'answer': part}, piece)
           for part, piece in zip(parts, given, strict=True)]
  columns = {f'part_{i}': one.reward for i, one in enumerate(inner, start=1)}
  if not text.strip():
    return verdict.failed(verdict.NO_ANSWER, columns=columns)
  return verdict.Verdict(
      sum(columns.values()) / len(columns), columns, verdict.OK, separator.join(given))
