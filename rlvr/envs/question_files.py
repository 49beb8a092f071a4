"""Reads questions from JSON lines or Parquet; every fault names the file and the line."""

import json
import math
import os
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

RESERVED = ('id', 'messages')  # what a task calls its own


def read_rows(path: str, question_field: str, answer_field: str) -> list[dict[str, Any]]:
  """The rows of a file, checked.

  Args:
    path: '.parquet', or JSON lines under any other name.
    question_field: each row holds a non-blank string there.
    answer_field: each row holds a non-blank string or a number there.

  Returns:
    The rows in order, with all their fields; the answer is a string.

  Raises:
    ValueError: one sentence with the file, the line (the row in Parquet), what
      is wrong and what would be right.
  """
  if not os.path.isfile(path):
    what = 'is a directory' if os.path.isdir(path) else 'does not exist'
    raise ValueError(f'{path} {what}; give a file of JSON lines or Parquet.')
  rows = []
  reader = _parquet if path.endswith('.parquet') else _json_lines
  for where, row in reader(path, (question_field, answer_field)):
    question, answer = (_field(where, row, name) for name in (question_field, answer_field))
    if not isinstance(question, str) or not question.strip():
      raise ValueError(
          f'{where}: field {question_field!r} is {_short(question)}; write a non-blank string.')
    if not _is_answer(answer):
      raise ValueError(
          f'{where}: field {answer_field!r} is {_short(answer)}; write a non-blank string or a '
          f'number.')
    rows.append({**row, answer_field: str(answer)})
  if not rows:
    raise ValueError(f'{path} holds no rows; it needs one question a line.')
  return rows


def _json_lines(path, fields) -> Iterator[tuple[str, Mapping[str, Any]]]:
  example = json.dumps(dict.fromkeys(fields, '...'))
  with open(path, 'rb') as lines:
    for number, raw in enumerate(lines, start=1):
      where = f'{path} line {number}'
      try:
        # A file written on Windows may start with a byte-order mark.
        line = raw.decode('utf-8-sig' if number == 1 else 'utf-8')
      except UnicodeDecodeError as error:
        raise ValueError(
            f'{where} is not UTF-8 (byte {error.start + 1}); write one JSON object a line in '
            f'UTF-8.') from error
      if not line.strip():
        raise ValueError(f'{where} is blank; delete it, or write an object such as {example}.')
      try:
        row = json.loads(line)
      except (ValueError, RecursionError) as error:
        reason = getattr(error, 'msg', str(error))
        raise ValueError(
            f'{where} is not JSON ({reason}); each line must be one object such as '
            f'{example}.') from error
      if not isinstance(row, dict):
        raise ValueError(
            f'{where} is a JSON {type(row).__name__}; each line must be one object such as '
            f'{example}.')
      yield where, row


def _parquet(path, fields) -> Iterator[tuple[str, Mapping[str, Any]]]:
  import pyarrow  # a fifth of a second, so only where it is needed
  from pyarrow import parquet

  try:
    with parquet.ParquetFile(path) as opened:
      for field in fields:
        _field(path, dict.fromkeys(opened.schema_arrow.names), field)
      number = 0
      for batch in opened.iter_batches():
        for row in batch.to_pylist():
          number += 1
          yield f'{path} row {number}', row
  except (pyarrow.ArrowInvalid, OSError) as error:
    raise ValueError(
        f'{path} is not a Parquet file that can be read ({str(error).splitlines()[0]}).') from error


def _field(where, row, name):
  if name not in row:
    raise ValueError(
        f'{where} has no field {name!r}; it has {", ".join(sorted(map(repr, row))) or "none"}.')
  return row[name]


def _is_answer(value):
  if isinstance(value, str):
    return bool(value.strip())
  return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _short(value):
  shown = repr(value)
  return shown if len(shown) <= 60 else shown[:57] + '...'
