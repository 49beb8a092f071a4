"""Answers to reasoning-gym tasks, scored by the data set's own scorer.

Several of those scorers evaluate the answer as Python (`sympy.parse_expr`,
`eval`), so an answer that names a built-in such as `exec(` or holds '__' is
refused unless the reference does the same, and grading belongs in the pool.
"""

import builtins
import functools
import json
import re
import types
import unicodedata
import warnings
from collections.abc import Mapping
from typing import Any

from rlvr import spec
from rlvr.verifiers import extract
from rlvr.verifiers import verdict

MAX_CHARACTERS = 20_000
_FIELDS = {'question', 'answer', 'metadata'}
# Their own scorers pay any text at all: bool('False') is True (reasoning-gym 0.1.25).
_COMPARED_HERE = {'game_of_life_halting'}
_HARMLESS = {'abs', 'divmod', 'len', 'max', 'min', 'pow', 'round', 'sorted', 'sum'}
_CALL = re.compile(r'\b(?:' + '|'.join(sorted(
    name for name, value in vars(builtins).items()
    if isinstance(value, types.BuiltinFunctionType) and name not in _HARMLESS)) + r')\s*\(')


def reasoning_gym_score(
    task: Mapping[str, Any], text: str, *, answer_tag: str = 'answer', solved_only: bool = False,
) -> verdict.Verdict:
  """The score that the task's data set gives the answer, in [0, 1].

  Args:
    task: 'dataset' is the data set's name, 'entry' what it generated, and
      'dataset_options' (optional) the JSON its options were given as.
    text: what the policy wrote; the answer is what the last <answer_tag> holds,
      or the whole text where no such tag closes.
    answer_tag: the tag's name.
    solved_only: pay 1 for a full score and nothing else; the data sets pay part
      of a score for a near miss, or for the form.

  Returns:
    Column 'solved' is 1 for a full score. Status 'ok', 'no_answer', 'bad_text'
    (the scorer cannot read the answer, but reads its own) or 'bad_gold'.
  """
  name, entry = task.get('dataset'), task.get('entry')
  if not isinstance(name, str) or not isinstance(entry, Mapping) or (
      not _FIELDS <= set(entry) or not isinstance(entry['metadata'], Mapping)):
    return verdict.failed(verdict.BAD_GOLD)
  answer = extract.last_tag(text, answer_tag)
  answer = text.strip() if answer is None else answer
  if not answer:
    return verdict.failed(verdict.NO_ANSWER)
  reference = str(entry.get('answer'))
  if len(answer) > max(MAX_CHARACTERS, 2 * len(reference)) or _runs_code(answer, reference):
    return verdict.failed(verdict.BAD_TEXT, answer)
  if entry['metadata'].get('source_dataset') in _COMPARED_HERE:
    same = extract.normalised(answer) == extract.normalised(reference)
    return verdict.Verdict(float(same), {'solved': float(same)}, verdict.OK, answer)
  try:
    dataset = _scorer(name, task.get('dataset_options') or '{}')
  except ValueError:
    return verdict.failed(verdict.BAD_GOLD, answer)
  try:
    score = _score(dataset, answer, entry)
  except Exception:  # anything at all: the scorers were written for well-formed answers
    return verdict.failed(verdict.BAD_TEXT if _reads(dataset, entry) else verdict.BAD_GOLD, answer)
  solved = float(score >= 1.0)
  return verdict.Verdict(solved if solved_only else score, {'solved': solved}, verdict.OK, answer)


def make_dataset(name: str, options: str, *, size: int, seed: int) -> Any:
  """A reasoning-gym data set.

  Args:
    name: as `reasoning_gym.create_dataset` knows it ('chain_sum').
    options: its own options as a JSON object ('{"max_terms": 3}').
    size: number of entries.
    seed: what they are drawn from.

  Returns:
    A sequence of entries with 'question', 'answer' and 'metadata'.

  Raises:
    ValueError: one sentence on an unknown name, options that are not a JSON
      object, or options that the data set refuses.
  """
  import reasoning_gym  # over a second, so only where it is needed
  from reasoning_gym import composite
  from reasoning_gym import factory

  if name not in factory.DATASETS:
    raise ValueError(
        f'dataset is {name!r}, which reasoning-gym does not have.'
        f'{spec.did_you_mean(name, factory.DATASETS)}')
  try:
    parsed = json.loads(options)
  except ValueError as error:
    raise ValueError(
        f'dataset_options is {options!r}, which is not JSON ({error}); '
        f'write an object such as {{"max_terms": 3}}.') from error
  if not isinstance(parsed, dict):
    raise ValueError(
        f'dataset_options is {options!r}; write a JSON object such as {{"max_terms": 3}}.')
  try:
    if name == 'composite':
      parsed['datasets'] = [
          composite.DatasetSpec(**{'weight': 1.0, 'config': {}} | part)
          for part in parsed.get('datasets', ())]
    return reasoning_gym.create_dataset(name, size=size, seed=seed, **parsed)
  except (AssertionError, KeyError, TypeError, ValueError) as error:
    raise ValueError(
        f'dataset {name!r} refuses size {size} with dataset_options {options}: '
        f'{str(error) or type(error).__name__}.') from error


@functools.lru_cache(maxsize=256)
def _scorer(name, options):
  return make_dataset(name, options, size=1, seed=0)


def _score(dataset, answer, entry):
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # numpy warns about answers that hold no numbers
    return min(1.0, max(0.0, float(dataset.score_answer(answer, dict(entry)))))


def _reads(dataset, entry):
  """Whether the scorer can score the entry's own answer, so that it is not to blame."""
  try:
    _score(dataset, entry.get('answer'), entry)
  except Exception:  # whatever it is, the text did not cause it
    return False
  return True


def _runs_code(answer, reference):
  plain = unicodedata.normalize('NFKC', answer)  # as Python reads identifiers
  if '__' in plain and '__' not in reference:
    return True
  return bool(_CALL.search(plain)) and not _CALL.search(reference)
