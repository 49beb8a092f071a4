"""The folder of one run: its config, its rollouts as text, and who may write in it.

    RUN/config.json                 the whole config, written once and atomically
    RUN/metrics.jsonl               one line a step (rlvr.host.metrics)
    RUN/rollouts/step_000012.jsonl  what was generated at a step, one row a line
    RUN/checkpoints/                the state (rlvr.host.checkpoint)

A folder belongs to one config. Opening it again with the same config continues
the run; another config is refused, because two runs in one folder would be
drawn as one curve.
"""

import fcntl
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np
from absl import logging

CONFIG = 'config.json'
ROLLOUTS = 'rollouts'
CHECKPOINTS = 'checkpoints'
METRICS = 'metrics.jsonl'

_CLAIMED: dict[pathlib.Path, int] = {}  # folder -> its open descriptor, which holds the lock

_ROLLOUT_FILE = re.compile(r'step_(\d+)\.jsonl')


def open_run(
    path: str | os.PathLike,
    config: Mapping[str, Any] | ml_collections.ConfigDict,
    *,
    may_differ: Iterable[str] = (),
) -> tuple[pathlib.Path, bool]:
  """Creates a run folder, or continues the one that is there.

  With several processes only the first one calls this.

  Args:
    path: the folder; its parents are made.
    config: the run's whole config; every leaf must fit JSON.
    may_differ: dotted fields ('num_steps') that a continued run may change;
      config.json then holds the new value.

  Returns:
    The folder's absolute path, and whether it already held this run.

  Raises:
    ValueError: another process writes there; the folder holds a run of another config
      (names the first field
      that differs and both values), holds a run without its config.json, or
      the config has a leaf that is no JSON.
    OSError: the path is not a folder or cannot be written.
  """
  path = pathlib.Path(path).absolute()
  text = _config_text(config)
  if path.exists() and not path.is_dir():
    raise NotADirectoryError(f'The run folder {path} is a file; name a folder.')
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise type(error)(
        error.errno, f'The run folder {path} cannot be made: {error.strerror}') from error
  _claim(path)
  config_path = path / CONFIG
  if not config_path.exists():
    for name in (METRICS, ROLLOUTS, CHECKPOINTS):
      if (path / name).exists():
        raise ValueError(
            f'The run folder {path} holds {name} of a run but no {CONFIG}, so it cannot be told '
            'whether this config made it; name another folder.')
    write_atomic(config_path, text)
    return path, False

  old, new = flat_config(read_config(path)), flat_config(json.loads(text))
  allowed = set(may_differ)
  for field in sorted(old.keys() | new.keys()):
    before, after = (json.dumps(c[field]) if field in c else 'absent' for c in (old, new))
    if before != after and field not in allowed:
      raise ValueError(
          f'The run folder {path} holds another run: {field} is {before} there and {after} in '
          'this config; name another folder, or the config that made it to continue.')
  # Also when equal: a folder that cannot be written is found out here, not at the first save.
  write_atomic(config_path, text)
  return path, True


def _claim(path):
  """One process writes in a run folder; the claim ends with the process."""
  if path in _CLAIMED:
    return
  folder = os.open(path, os.O_RDONLY)
  try:
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError as error:
    os.close(folder)
    raise ValueError(
        f'The run folder {path} is in use by another process; wait for it, or name another '
        'folder.') from error
  except OSError:  # a file system without locks
    logging.warning('%s: the file system has no locks; start no second run there.', path)
  _CLAIMED[path] = folder


def read_config(run_dir: str | os.PathLike) -> dict[str, Any]:
  """The config that made the run. Raises: ValueError for a folder that is no run."""
  path = pathlib.Path(run_dir) / CONFIG
  if not path.is_file():
    raise ValueError(f'{run_dir} is no run folder: it has no {CONFIG}.')
  try:
    config = json.loads(path.read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(f'{path} is not JSON: {error}.') from error
  if not isinstance(config, dict) or 'model_type' in config:
    raise ValueError(f'{path} is no config of a run; name a folder that experiments.run made.')
  return config


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
  """Dotted field -> leaf; an empty section is a leaf."""
  flat = {}
  for key, value in config.items():
    if isinstance(value, Mapping) and value:
      flat |= {f'{key}.{name}': leaf for name, leaf in flat_config(value).items()}
    else:
      flat[str(key)] = value
  return flat


def _config_text(config):
  if isinstance(config, ml_collections.ConfigDict):
    config = config.to_dict()
  for field, value in flat_config(config).items():
    try:
      json.dumps(plain(value))
    except TypeError as error:
      raise ValueError(f'config.{field} = {value!r} does not fit JSON: {error}.') from error
  return json.dumps(plain(config), indent=2) + '\n'


def plain(value: Any) -> Any:
  """What strict JSON can hold: arrays and NumPy scalars become lists and numbers.

  NaN and the infinities become the strings 'nan', 'inf' and '-inf', which
  float() reads back; null would lose which of the three it was.
  """
  if isinstance(value, Mapping):
    return {str(key): plain(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [plain(item) for item in value]
  if isinstance(value, np.generic) or hasattr(value, '__array__'):
    return plain(np.asarray(value).tolist())
  if isinstance(value, float) and not math.isfinite(value):
    return str(value)
  return value


def write_atomic(path: pathlib.Path, text: str) -> None:
  """Writes the whole file or nothing: a reader never sees a half.

  Raises:
    OSError: one sentence naming the file; the old content is untouched.
  """
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  try:
    with temporary.open('w', encoding='utf-8') as file:
      file.write(text)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
  except OSError as error:
    temporary.unlink(missing_ok=True)
    raise type(error)(error.errno, f'{path} cannot be written: {error.strerror}') from error


def write_rollouts(
    run_dir: str | os.PathLike, step: int, rows: Iterable[Mapping[str, Any]]) -> pathlib.Path:
  """Writes one step's rollouts, one JSON object a line.

  Args:
    run_dir: the run folder.
    step: the step that trained on them.
    rows: by convention 'prompt', 'completion', 'answer', 'gold', 'reward',
      'status', 'advantage', 'length', 'stop', 'group'; others are kept.
      Non-ASCII text is escaped, so that lone surrogates survive.

  Returns:
    The file's path.
  """
  path = rollout_file(run_dir, step)
  path.parent.mkdir(exist_ok=True)
  write_atomic(path, ''.join(json.dumps(plain(row)) + '\n' for row in rows))
  return path


def read_rollouts(run_dir: str | os.PathLike, step: int) -> list[dict[str, Any]]:
  """One step's rows. Raises: ValueError naming the steps that are there."""
  steps = rollout_steps(run_dir)
  if step not in steps:
    known = f'{steps[0]} to {steps[-1]}, {len(steps)} files' if steps else 'none'
    raise ValueError(f'{run_dir} has no rollouts of step {step}; it has {known}.')
  rows = []
  with rollout_file(run_dir, step).open(encoding='utf-8') as file:
    for number, line in enumerate(file, start=1):
      try:
        rows.append(dict(json.loads(line)))
      except (ValueError, TypeError) as error:
        raise ValueError(
            f'{rollout_file(run_dir, step)}: line {number} is no JSON object.') from error
  return rows


def rollout_file(run_dir: str | os.PathLike, step: int) -> pathlib.Path:
  """The path of one step's rollouts."""
  return pathlib.Path(run_dir) / ROLLOUTS / f'step_{step:06d}.jsonl'


def rollout_steps(run_dir: str | os.PathLike) -> list[int]:
  """The steps whose rollouts are kept, ascending."""
  folder = pathlib.Path(run_dir) / ROLLOUTS
  matches = (_ROLLOUT_FILE.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else ()
  return sorted(int(match[1]) for match in matches if match)


def drop_rollouts_after(run_dir: str | os.PathLike, step: int) -> None:
  """Removes rollouts of steps after `step`: what a resumed run will write again."""
  for later in rollout_steps(run_dir):
    if later > step:
      rollout_file(run_dir, later).unlink()
