"""Questions with reference answers from a file: GSM8K, MATH and the like."""

import functools
import random
from collections.abc import Callable

from absl import logging

from rlvr import verifiers
from rlvr.envs import env
from rlvr.envs import question_files


def questions(
    *,
    path: str = '',
    held_out_path: str | None = None,
    held_out_fraction: float = 0.1,
    question_field: str = 'question',
    answer_field: str = 'answer',
    verifier: Callable[..., verifiers.Verdict] = verifiers.math,
    system_prompt: str = '',
    template: str = '{question}',
    seed: int = 0,
) -> env.Env:
  r"""Tasks from JSON lines or Parquet, one question a row.

  GSM8K has fields 'question' and 'answer', MATH 'problem' and 'solution'; both
  mark the reference inside a solution ('#### 72', '\boxed{72}'), which the
  verifiers read as they read the policy's text. All other fields of a row are
  kept in the task, for verifiers that need them ('tests').

  Args:
    path: the file to train on.
    held_out_path: the file to evaluate on; None holds out a part of `path`.
    held_out_fraction: that part, in [0, 1).
    question_field: name of the question's field.
    answer_field: name of the reference answer's field.
    verifier: an entry of the table VERIFIERS.
    system_prompt: goes in front of each question; '' leaves it out.
    template: the user's message, with '{question}'.
    seed: which rows are held out.

  Returns:
    An Env. A question that is held out is dropped from the training rows
    wherever it is repeated, and the log says how many were.

  Raises:
    ValueError: one sentence on a file, line or field that is missing or
      malformed, on an option out of range, or where nothing is left to train on.
  """
  if not path:
    raise ValueError('path is empty; give a file of JSON lines or Parquet.')
  if not 0 <= held_out_fraction < 1:
    raise ValueError(f'held_out_fraction is {held_out_fraction}; it must be in [0, 1).')
  if '{question}' not in template:
    raise ValueError(f"template is {template!r}; it must hold '{{question}}'.")
  rows = question_files.read_rows(path, question_field, answer_field)
  if held_out_path:
    held_out = question_files.read_rows(held_out_path, question_field, answer_field)
  else:
    order = random.Random(seed).sample(range(len(rows)), round(held_out_fraction * len(rows)))
    held_out = [rows[i] for i in sorted(order)]
  seen = {_plain(row[question_field]) for row in held_out}
  train = [row for row in rows if _plain(row[question_field]) not in seen]
  repeated = len(rows) - len(train) - (0 if held_out_path else len(held_out))
  if repeated:
    logging.warning('%s: %d rows repeat a held-out question and are left out.', path, repeated)
  if not train:
    raise ValueError(
        f'{path}: all {len(rows)} rows are held out, so none is left to train on; add rows or '
        f'lower held_out_fraction.')
  make = functools.partial(_task, question_field, answer_field, system_prompt, template)
  return env.Env(
      train=env.Tasks(len(train), functools.partial(make, train, 0)),
      held_out=env.Tasks(len(held_out), functools.partial(make, held_out, len(train))),
      verifier=verifier,
      description=f'{path}: {len(train)} to train on, {len(held_out)} held out')


def _plain(question):
  return ' '.join(question.split())


def _task(question_field, answer_field, system_prompt, template, rows, first_id, index):
  row = rows[index]
  kept = {name: value for name, value in row.items() if name not in question_files.RESERVED}
  return {
      **kept,
      'id': first_id + index,
      'messages': env.messages(template.replace('{question}', row[question_field]), system_prompt),
      'answer': row[answer_field],
  }
