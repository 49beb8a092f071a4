"""What a batch was like: f32[] by name, from the rollout alone."""

from typing import Any

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types

Array = jax.Array


def rollout_metrics(rollout: types.Rollout, step: Array) -> dict[str, Array]:
  """What a batch was like, f32[] by name; shares are of rows that hold a response."""
  where, graded = rollout.where, types.graded(rollout)
  length = types.lengths(rollout).astype(jnp.float32)
  raw = rollout.reward if rollout.columns is None else rollout.columns[:, 0]
  raw = jnp.where(graded, raw, 0.0)
  first = where & (groups.index(rollout.group, where) == 0)
  dead = groups.all_equal(raw, rollout.group, graded)
  stale = jnp.where(rollout.mask != 0, step - rollout.version, 0)
  tokens = jnp.sum(rollout.mask != 0)
  return {
      'reward': share(rollout.reward, graded),
      'reward_std': share(groups.std(rollout.reward, rollout.group, graded), first),
      'outcome': share(raw, graded),
      'length': share(length, where),
      'length_right': share(length, graded & (raw > 0)),
      'length_wrong': share(length, graded & (raw <= 0)),
      'truncated': share(rollout.stop == types.BUDGET, where),
      'aborted': share(rollout.stop == types.ABORT, where),
      'ungraded': share(~graded, where),
      'dead_groups': share(dead, first),
      'all_right_groups': share(dead & (groups.max(raw, rollout.group, graded) > 0), first),
      'staleness': jnp.sum(stale) / jnp.maximum(tokens, 1),
      'tokens': tokens.astype(jnp.float32),
      'rows': jnp.sum(where).astype(jnp.float32),
  }


def share(x: Any, where: Array) -> Array:
  """Mean of x over `where`; 0 where it is empty."""
  total = jnp.sum(jnp.where(where, x, 0).astype(jnp.float32))
  return total / jnp.maximum(jnp.sum(where), 1)
