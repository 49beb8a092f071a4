"""Checkpoints: the whole TrainState, the data cursor and the config that fixes the tree.

One step is one folder, DIRECTORY/<step>, with the items state, cursor and
config. Orbax writes it under a temporary name and renames it when it is whole,
so a killed save leaves the last checkpoint as it was. What is missing or cut short
is found when it is read; a flipped bit inside a large array is not, as the format
keeps no checksum there.

`save` returns when the files are in place. It does not write in the background:
the next step donates the state's buffers, and a copy to protect them would hold
the state twice on the device.
"""

import os
import pathlib
import shutil
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from rlvr.host import quiet_orbax
from rlvr.host import run_dir

_TEMPORARY = '*.orbax-checkpoint-tmp*'

class Checkpointer:
  """Saves and restores a run's checkpoints.

  Args:
    directory: where; made by the first save. With several processes all of them
      call every method, and the folder is shared by all.
    keep: how many of the newest checkpoints stay.
    fingerprint: the config fields that fix the state's tree and its meaning
      (model sizes, optimizer, anchors, seed); nested is fine, leaves fit JSON.
  """

  def __init__(
      self,
      directory: str | os.PathLike,
      *,
      keep: int = 2,
      fingerprint: Mapping[str, Any],
  ):
    if keep < 1:
      raise ValueError(f'keep must be at least 1, got {keep}.')
    self._directory = pathlib.Path(directory).absolute()
    self._keep = keep
    # Tuples come back from JSON as lists: hold what JSON makes of them.
    self._fingerprint = run_dir.plain(fingerprint)
    self._manager: ocp.CheckpointManager | None = None

  def save(self, step: int, state: Any, cursor: Mapping[str, Any]) -> None:
    """Writes one checkpoint and waits for it; saving the latest step again is a no-op.

    Args:
      step: number of optimiser steps in `state`.
      state: pytree of arrays; typed keys and sharded arrays are fine.
      cursor: the data iterator's state; fits JSON.

    Raises:
      ValueError: the folder holds a later step, or another config's checkpoints.
      OSError: the disk is full or the folder cannot be written; the checkpoints
        that were there are untouched and nothing half-written stays.
    """
    latest = self.latest_step()
    if latest is not None:
      self._check_config(latest)
      if step == latest:
        return
      if step < latest:
        raise ValueError(
            f'Step {step} cannot be saved in {self._directory}: it already holds step {latest}, '
            'which a later restore would take for the newest; use another folder.')
    try:
      self._open_for_writing()
      with quiet_orbax.faults_only_raised():
        self._manager.save(step, force=True, args=ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            cursor=ocp.args.JsonSave(run_dir.plain(cursor)),
            config=ocp.args.JsonSave(self._fingerprint)))
        self._manager.wait_until_finished()
    except (OSError, ValueError) as error:  # TensorStore raises ValueError for a full disk.
      self._remove_failed()
      reason = str(error).splitlines()[0][:300]
      raise OSError(
          f'Checkpoint {step} cannot be written to {self._directory}: {reason}') from error

  def restore(self, like: Any, step: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Reads a checkpoint, bit for bit.

    Args:
      like: a state, or its `jax.ShapeDtypeStruct`s, of the same tree, shapes and
        dtypes; each array is placed by its sharding. It may have been donated.
      step: which; the latest by default.

    Returns:
      (state, cursor).

    Raises:
      ValueError: there is no such checkpoint; it is of another config (names the
        field and both values); its tree differs from `like` (names the leaf); or
        it is damaged (names the folder).
    """
    step = self._existing(step)
    self._check_config(step)
    self._check_tree(step, like)
    found = self._read(step, state=ocp.args.StandardRestore(_abstract(like)),
                       cursor=ocp.args.JsonRestore())
    return found.state, found.cursor

  def restore_params(self, like_params: Any, step: int | None = None) -> Any:
    """Reads the weights only: for evaluation, or to start another run from them.

    The fingerprint is not compared, only the parameters' names, shapes and
    dtypes: a run with another optimizer may start from these weights.

    Args:
      like_params: as `like` in `restore`, of the params alone.
      step: which; the latest by default.

    Returns:
      The params.

    Raises:
      ValueError: as `restore`.
    """
    step = self._existing(step)
    like = {'params': _abstract(like_params)}
    self._check_tree(step, like, part='params')
    return self._read(step, state=ocp.args.PyTreeRestore(
        like, restore_args=ocp.checkpoint_utils.construct_restore_args(like),
        partial_restore=True)).state['params']

  def latest_step(self) -> int | None:
    """The newest whole checkpoint, or None; looks at the folder each time."""
    steps = self.all_steps()
    return steps[-1] if steps else None

  def all_steps(self) -> list[int]:
    """The steps with a whole checkpoint, ascending."""
    if not self._directory.is_dir():
      return []
    return sorted(int(p.name) for p in self._directory.iterdir() if p.name.isdecimal())

  def close(self) -> None:
    """Releases Orbax's threads; the object may be used again."""
    if self._manager is not None:
      self._manager.close()
    self._manager = None

  def _open_for_writing(self):
    """Makes the manager: a reader must not tidy a writer's folder."""
    if self._manager is None:
      self._directory.mkdir(parents=True, exist_ok=True)
      self._remove_temporary()
      self._manager = ocp.CheckpointManager(
          self._directory, options=ocp.CheckpointManagerOptions(
              max_to_keep=self._keep, enable_async_checkpointing=False))

  def _remove_temporary(self):
    """Removes what killed or failed saves left; one process writes, so none is in use."""
    if jax.process_index() == 0:
      for path in self._directory.glob(_TEMPORARY):
        shutil.rmtree(path, ignore_errors=True)

  def _remove_failed(self):
    """Writes in flight when one failed go on for a moment, and make the folder anew."""
    absent = 0
    for _ in range(100):
      absent = 0 if any(self._directory.glob(_TEMPORARY)) else absent + 1
      if absent == 3:
        break
      self._remove_temporary()
      time.sleep(0.1)

  def _existing(self, step):
    steps = self.all_steps()
    if step is None and steps:
      return steps[-1]
    if step not in steps:
      raise ValueError(
          f'{self._directory} has no checkpoint' + ('' if step is None else f' of step {step}')
          + f'; it has {f"steps {steps}" if steps else "none"}.')
    return step

  def _read(self, step, **args):
    path = self._directory / str(step)
    try:
      # A fresh handler each time: it binds an item to the first kind of args it sees.
      with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
        return reader.restore(path, args=ocp.args.Composite(**args))
    except Exception as error:  # Orbax raises a bare Exception where a chunk is short.
      raise self._damaged(step, error) from error

  def _damaged(self, step, error):
    others = [s for s in self.all_steps() if s != step]
    reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
    return ValueError(
        f'Checkpoint {self._directory / str(step)} is damaged or incomplete ({reason}); '
        + (f'restore one of steps {others} instead.' if others else 'there is no other.'))

  def _check_config(self, step):
    saved = self._read(step, config=ocp.args.JsonRestore()).config
    if saved is None:
      raise self._damaged(step, ValueError('it has no config'))
    old, new = run_dir.flat_config(saved), run_dir.flat_config(self._fingerprint)
    for field in sorted(old.keys() | new.keys()):
      before, after = old.get(field, 'absent'), new.get(field, 'absent')
      if before != after:
        raise ValueError(
            f'Checkpoint {self._directory / str(step)} is of another config: {field} is '
            f'{before!r} there and {after!r} here.')

  def _check_tree(self, step, like, part=''):
    """Orbax would cast to like's dtype without a word (f32 master weights to bf16: fault 51)."""
    try:
      tree = ocp.StandardCheckpointHandler().metadata(self._directory / str(step) / 'state').tree
    except Exception as error:
      raise self._damaged(step, error) from error
    saved, wanted = _leaves(tree), _leaves(_abstract(like))
    for name in sorted(saved.keys() | wanted.keys()):
      if part and name.split('.')[0] != part:
        continue
      before, after = saved.get(name, 'absent'), wanted.get(name, 'absent')
      if before != after:
        raise ValueError(
            f'Checkpoint {self._directory / str(step)} does not fit: {name} is {before} there '
            f'and {after} here.')


def _abstract(tree):
  """Shapes, dtypes and placements: what is left of a state that was donated."""
  return jax.tree.map(
      lambda x: x if not isinstance(x, jax.Array)
      else jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


def _leaves(tree):
  """'params.layer.w' -> 'float32[8, 4]'; a typed key is the integers that hold it."""
  leaves = {}
  for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      leaf = jax.eval_shape(jax.random.key_data, leaf)
    name = jax.tree_util.keystr(path, simple=True, separator='.')
    leaves[name] = f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}'
  return leaves
