"""Multi-step trajectories: one advantage a trajectory, shared out over its rows.

Each row is one step with a prompt of its own; rows of one `trajectory` carry the
same reward, and `group` is the task. A rollout without `trajectory` is single-turn:
each row is one.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import group_relative

Array = jax.Array


def konst_len(
    rollout: types.Rollout, *, base=group_relative.grpo, k: float = 10.0
) -> Array:
  """A / k on every row of a trajectory, k a constant: a long failure is pushed at each step.

  Args:
    rollout: reads trajectory i32[B] (any ids; one group's at a time), reward,
      group, graded, where and what `base` reads. All rows of a trajectory, and all
      trajectories of a group, must be in the batch.
    base: the advantage over trajectories, one number each.
    k: steps, positive; it scales this term against KL and entropy terms.

  Returns:
    f32[B]; 0 on ungraded rows. Over rows it does not sum to 0, since long failures
    outweigh; that is the point. k = 1 and one step each: `base`.

  Raises:
    ValueError: k is not positive.

  Source: AsyncWebRL (arXiv 2606.05297). Provenance: official code read
  (microsoft/webgym, async code base: areal/trainer/ppo/actor.py and the main
  run's configuration, k = 10); paper through its abstract and summary.
  """
  if k <= 0:
    raise ValueError(f'konst_len: k={k} must be positive (steps).')
  return over_trajectories(rollout, base) / k


def step_mean(rollout: types.Rollout, *, base=group_relative.grpo) -> Array:
  """A / (rows of the trajectory): multi-step GRPO, where a long failure is diluted.

  Args, Returns: as `konst_len`; a trajectory counts all its rows, graded or empty.

  Source: the baseline of AsyncWebRL (arXiv 2606.05297), see `konst_len`.
  """
  trajectory = trajectory_ids(rollout)
  num_steps = groups.count(trajectory, rollout.where)
  return over_trajectories(rollout, base) / jnp.maximum(num_steps, 1)


def trajectory_ids(rollout: types.Rollout) -> Array:
  """i32[B]: dense ids of (group, trajectory); without `trajectory` each row is one."""
  rows = jnp.arange(rollout.where.shape[0], dtype=jnp.int32)
  return order.dense(
      rollout.group, rows if rollout.trajectory is None else rollout.trajectory)


def over_trajectories(rollout: types.Rollout, base) -> Array:
  """f32[B]: base over one row a trajectory, its first graded one, given to all its graded rows.

  Raises:
    ValueError: base gives one advantage a token.
  """
  graded, trajectory = types.graded(rollout), trajectory_ids(rollout)
  once = graded & (groups.index(trajectory, graded) == 0)
  advantage = base(rollout.replace(where=once))
  if advantage.ndim != 1:
    raise ValueError('The base over trajectories must give one advantage a row, not one a token.')
  return groups.zero_off(groups.sum(advantage, trajectory, once), graded)
