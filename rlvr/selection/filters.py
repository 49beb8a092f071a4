"""Which rows are trained: (rollout, advantages) -> f32[B], row weights at least 0.

Exactly 0 filters a row: its mask becomes 0 and divisors shrink. Anything above 0
only scales. A filter has an option `base`, the selection it narrows, so that a
config nests them. A filtered row stays in its group's statistics, which were
taken before.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types

Array = jax.Array


def keep_all(rollout: types.Rollout, advantages: Array) -> Array:
  """1 on every row that holds a response, graded or not."""
  del advantages
  return rollout.where.astype(jnp.float32)


def graded_rows(rollout: types.Rollout, advantages: Array, *, base=keep_all) -> Array:
  """base, and 0 on rows without a verdict, which then leave the divisors too."""
  return jnp.where(types.graded(rollout), base(rollout, advantages), 0.0)


def mixed_groups(rollout: types.Rollout, advantages: Array, *, base=keep_all) -> Array:
  """base, and 0 on groups whose raw outcomes (column 0) are all equal: dynamic sampling.

  Args:
    rollout: reads columns f32[B, S], group, graded, where. The raw outcome, not
      the shaped reward: an all-correct group of unequal lengths has a spread in
      reward and no signal of correctness.
    advantages: passed to `base`.
    base: a part of SELECTION.

  Returns:
    f32[B]; ungraded rows of a kept group keep base's weight. A group with fewer
    than two graded members is dropped.

  Raises:
    ValueError: the rollout has no columns.

  Source: DAPO (arXiv 2503.14476), dynamic sampling's filter; the drawing of
  further prompts is the loop's. Provenance: code read (volcengine/verl recipe
  settings); paper from knowledge.
  """
  if rollout.columns is None:
    raise ValueError('mixed_groups reads rollout.columns, which is None.')
  where = types.graded(rollout)
  mixed = ~groups.all_equal(rollout.columns[:, 0], rollout.group, where)
  return jnp.where(mixed, base(rollout, advantages), 0.0)


def overlong_filter(rollout: types.Rollout, advantages: Array, *, base=keep_all) -> Array:
  """base, and 0 on rows that the token budget cut off (stop is BUDGET).

  Args:
    rollout: reads stop, where.
    advantages: passed to `base`.
    base: a part of SELECTION.

  Returns:
    f32[B].

  Source: DAPO (arXiv 2503.14476), overlong filtering. A mask, not a gate: the
  divisors shrink. Use it or `rewards.overlong_penalty`, not both.
  """
  return jnp.where(rollout.stop != types.BUDGET, base(rollout, advantages), 0.0)


def live_groups(rollout: types.Rollout, advantages: Array, *, base=keep_all) -> Array:
  """base, and 0 on groups whose advantages are all 0: nothing in them can be learnt.

  It reads the advantage, so it is right after shaping, several rewards or a
  length penalty too, where groups of equal outcomes carry signal and groups of
  unequal ones may not.

  Args:
    rollout: reads group, where, mask.
    advantages: f32[B], or f32[B, T], read on the mask.
    base: a part of SELECTION.

  Returns:
    f32[B]; rows of a kept group keep base's weight.
  """
  if advantages.ndim == 2:
    advantages = jnp.max(jnp.abs(groups.zero_off(advantages, rollout.mask)), axis=-1)
  size = groups.max(jnp.abs(advantages), rollout.group, rollout.where)
  return jnp.where(size > 0, base(rollout, advantages), 0.0)


def drop_pivot(rollout: types.Rollout, advantages: Array, *, base=keep_all) -> Array:
  """base, and 0 on one row a group: the first whose reward is the group's lower median.

  Args:
    rollout: reads reward, group, graded, where.
    advantages: passed to `base`; `advantages.mc_grpo` is 0 on the pivot.
    base: a part of SELECTION.

  Returns:
    f32[B]; a group without graded members drops none, one of a single graded
    member drops it.

  Source: MC-GRPO (arXiv 2601.22582), see `advantages.mc_grpo`.
  """
  _, pivot = order.pivot(rollout.reward, rollout.group, types.graded(rollout))
  return jnp.where(pivot, 0.0, base(rollout, advantages))


FILTERS = (keep_all, graded_rows, mixed_groups, overlong_filter, live_groups, drop_pivot)
