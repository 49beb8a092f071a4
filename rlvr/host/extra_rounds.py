"""Rounds of further rollouts: an allocator sees the graded rows and buys more of some prompts."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import types
from rlvr.host import dynamic_sampling
from rlvr.host import rollouts


def extra_rounds(
    first: rollouts.Sampled,
    buy: Callable[[np.ndarray, int], rollouts.Sampled],
    allocate: Callable[[types.Rollout, int], jax.Array],
    *,
    num_extra: int,
) -> rollouts.Sampled:
  """`first` with room for `num_extra` more rows, filled in rounds while the allocator asks.

  Args:
    first: the graded rows of the step so far, P prompts.
    buy: (counts i32[P], round number from 1) -> as many rows of the same prompts.
    allocate: (rollout, left) -> counts i32[P], of sum at most left; all zeros ends
      the rounds. The rollout has room for every row, so its shapes never change.
    num_extra: rows that may be bought; those that are not stay unused.

  Returns:
    One Sampled; a bought row has its prompt's group. 'extra_rows' and 'extra_rounds'
    count; the other metrics are summed, shares averaged over the rounds.

  Raises:
    ValueError: the allocator asks for more than is left.
  """
  parts, left = [first], num_extra
  merged = _merge(parts, num_extra)
  while left:
    counts = np.asarray(allocate(merged.rollout, left))
    if not counts.any():
      break
    if counts.sum() > left or counts.min() < 0:
      raise ValueError(f'The allocator asks for {counts.tolist()} rollouts; {left} are left.')
    parts.append(buy(counts, len(parts)))
    left -= int(counts.sum())
    merged = _merge(parts, num_extra)
  metrics = dynamic_sampling.summed([part.metrics for part in parts])
  return merged._replace(metrics=metrics | {
      'extra_rows': float(num_extra - left), 'extra_rounds': float(len(parts) - 1)})


def _merge(parts, num_extra):
  """The first part's rows as they are, then the used rows of the others, then free ones."""
  num_rows = len(parts[0].texts) + num_extra
  wheres = [np.asarray(part.rollout.where) for part in parts]
  rows = [np.arange(len(wheres[0])), *(np.flatnonzero(where) for where in wheres[1:])]
  leaves = [jax.device_get(types.row_leaves(part.rollout)) for part in parts]

  def join(*arrays):
    taken = np.concatenate([array[at] for array, at in zip(arrays, rows, strict=True)])
    free = np.zeros((num_rows - len(taken), *taken.shape[1:]), taken.dtype)
    return jnp.asarray(np.concatenate([taken, free]))

  def text_side(name, blank):
    taken = [getattr(part, name)[i] for part, at in zip(parts, rows, strict=True) for i in at]
    return taken + [blank] * (num_rows - len(taken))

  # All at once: a rollout is checked whenever a field is replaced.
  rollout = types.Rollout(
      prompts=parts[0].rollout.prompts, teacher_prompts=parts[0].rollout.teacher_prompts,
      **jax.tree.map(join, *leaves))
  return rollouts.Sampled(rollout, text_side('tasks', None), text_side('texts', ''),
                          text_side('verdicts', None), {})
