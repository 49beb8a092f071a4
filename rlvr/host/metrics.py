"""A run's numbers: one JSON line a step in metrics.jsonl, and TensorBoard events.

A line is {"step": 12, "reward": 0.5, ...}. It is strict JSON: NaN and the
infinities are the strings "nan", "inf" and "-inf", which `read` turns back into
floats; a diverged run is then visible, and other readers do not choke. A step
may have several lines (an evaluation has its own).

Standard names are in NAMES; progress, plot and report read these. A part's own
metrics keep any other name; 'loss/<term>' and 'eval/<task>/<name>' are the
forms for families.

Order that makes a resumed file equal that of an uninterrupted run: the lines of
step n, its evaluation's too, are written before checkpoint n is saved, and a
resumed run opens its writer with `last_step=n`, which drops what came after.
"""

import json
import os
import pathlib
import time
from collections.abc import Mapping

from absl import logging

from rlvr.host import events
from rlvr.host import run_dir as run_dir_lib

NAMES: dict[str, str] = {
    'reward': 'mean reward of the graded rows',
    'reward_std': 'mean over groups of the within-group standard deviation',
    'length': 'mean response tokens',
    'truncated': 'share of responses cut by the token limit',
    'ungraded': 'share of rows that no grader scored; they are outside the statistics',
    'dead_groups': 'share of groups whose rewards are all equal',
    'entropy': 'mean policy entropy a trained token, in nats',
    'mismatch_kl': 'k3 estimate of KL(sampler || trainer) a token, in nats',
    'ref_kl': 'k3 estimate of KL(policy || reference) a token, in nats',
    'clip_share': 'share of trained tokens whose gradient the clip removed',
    'active': 'share of trained tokens that neither a clip nor a correction of 0 cuts',
    'ais_alpha': 'strength of the sampler-to-trainer weight, 0 to 1',
    'sfpo_alpha': 'share of the fast steps that is kept; 0 once the latch fell',
    'value_error': 'mean |value - target| a token',
    'loss': 'the objective that was stepped on',
    'grad_norm': 'global gradient norm before clipping',
    'tokens_per_second': 'response tokens generated and trained, per second of the step',
    'staleness': 'mean age of the trained tokens, in policy steps',
    'compiles': 'programs compiled since the start; constant once all shapes were met',
    'peak_temp_bytes': 'temporaries of the compiled update',
    'seconds_per_step': 'wall time of the step, in seconds',
    'eval/accuracy': 'greedy accuracy on held-out prompts (with _low and _high)',
    'eval/pass@k': 'unbiased pass@k on held-out prompts (with _low and _high)',
    'eval/avg@k': 'mean accuracy of k samples on held-out prompts (with _low and _high)',
}


class Writer:
  """Appends metrics; one process of a run holds one.

  Args:
    run_dir: the run folder (rlvr.host.run_dir.open_run made it).
    last_step: drop lines of later steps first: the step that was restored, or
      -1 for a run that starts again (0 would keep an evaluation before the first
      step, which is then written twice). None keeps every whole line.
    tensorboard: also write events under RUN/tensorboard.

  A torn last line, left by a killed run, is always dropped, with a warning.
  """

  def __init__(
      self,
      run_dir: str | os.PathLike,
      *,
      last_step: int | None = None,
      tensorboard: bool = True,
  ):
    self._path = pathlib.Path(run_dir) / run_dir_lib.METRICS
    if self._path.exists():
      rows = _whole_lines(self._path)
      kept = [line for line, row in rows if last_step is None or row['step'] <= last_step]
      run_dir_lib.write_atomic(self._path, ''.join(kept))
    # Unbuffered: a line is one write, and a failed one can be undone.
    self._file = self._path.open('ab', buffering=0)
    self._events = None
    if tensorboard:
      self._events = events.Events(
          run_dir, first_step=None if last_step is None else last_step + 1)

  def write(self, step: int, metrics: Mapping[str, float]) -> None:
    """Appends one line and waits until the operating system has it.

    Args:
      step: the step the numbers belong to.
      metrics: name -> number (Python, NumPy or a scalar array).

    Raises:
      ValueError: a metric is named 'step' or is no scalar.
      OSError: the disk is full; metrics.jsonl ends with a whole line.
    """
    if 'step' in metrics:
      raise ValueError("A metric cannot be named 'step'.")
    values = {name: _scalar(name, value) for name, value in metrics.items()}
    row = {'step': int(step), **run_dir_lib.plain(values)}
    line = (json.dumps(row, allow_nan=False) + '\n').encode()
    end = self._file.seek(0, os.SEEK_END)
    try:
      written = self._file.write(line)
      if written != len(line):
        self._file.write(line[written:])
    except OSError as error:
      self._file.truncate(end)
      raise type(error)(
          error.errno, f'{self._path} cannot be written: {error.strerror}') from error
    if self._events is not None:
      self._events.write(int(step), values, time.time())

  def close(self) -> None:
    """Closes both files; calling it twice is harmless."""
    self._file.close()
    if self._events is not None:
      self._events.close()

  def __enter__(self) -> 'Writer':
    return self

  def __exit__(self, *exc_info) -> None:
    self.close()


def read(run_dir: str | os.PathLike) -> list[dict[str, float]]:
  """The rows of metrics.jsonl in file order, each with its 'step'.

  A torn last line (the run was killed, or is writing) is skipped with a warning
  that names it.

  Raises:
    ValueError: there is no metrics.jsonl, or a line before the last is broken.
  """
  path = pathlib.Path(run_dir) / run_dir_lib.METRICS
  if not path.is_file():
    raise ValueError(f'{run_dir} has no {run_dir_lib.METRICS}.')
  return [row for _, row in _whole_lines(path)]


def _whole_lines(path):
  """[(line with its newline, row)]; warns of a torn last line."""
  with path.open(encoding='utf-8', errors='replace', newline='\n') as file:
    lines = list(file)
  rows = []
  for index, line in enumerate(lines):
    row = _parse(line)
    if row is not None:
      rows.append((line, row))
    elif index == len(lines) - 1:
      logging.warning('%s: line %d is torn and skipped: %r', path, index + 1, line[:80])
    else:
      raise ValueError(f'{path}: line {index + 1} is no metrics row: {line[:80]!r}.')
  return rows


def _parse(line):
  """The row, or None. A line without its newline is torn even if it parses (1.2 of 1.25)."""
  if not line.endswith('\n'):
    return None
  try:
    row = json.loads(line)
    return {name: v if name == 'step' else float(v) for name, v in row.items()} | {
        'step': int(row['step'])}
  except (ValueError, KeyError, TypeError, AttributeError):
    return None


def _scalar(name, value):
  try:
    return float(value)
  except (TypeError, ValueError) as error:
    raise ValueError(f'Metric {name!r} is no scalar: {value!r}.') from error
