"""RoRecomp's priority rows: short right and long wrong responses."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.selection import filters

Array = jax.Array


def rorecomp(
    rollout: types.Rollout, advantages: Array, *, base=filters.keep_all, share: float = 0.5
) -> Array:
  """base on the priority rows of each group, 0 on the rest.

  Of a group's n right responses (raw outcome above 0) the ceil(share n) shortest,
  of its m wrong ones the ceil(share m) longest; among equal lengths the lower row.

  Args:
    rollout: reads columns f32[B, S], group, graded, where, mask (a response's
      length is its policy tokens).
    advantages: passed to `base`; they were formed on the whole groups, so the
      baseline stays unbiased.
    base: a part of SELECTION.
    share: alpha, above 0 and at most 1; 1 keeps every graded row.

  Returns:
    f32[B]. One right response is priority whatever its length; a truncated one is
    wrong and long. Ungraded rows are neither and get 0.

  Raises:
    ValueError: share out of range, or the rollout has no columns.

  Source: RoRecomp (arXiv 2509.25958). Provenance: abstract only, reconstructed
  (alpha's value, and that it acts per prompt). Alone it drops the other rows for
  good; config.compensation trains them later.
  """
  if not 0 < share <= 1:
    raise ValueError(f'rorecomp: share={share} must be above 0 and at most 1.')
  if rollout.columns is None:
    raise ValueError('rorecomp reads rollout.columns, which is None.')
  graded = types.graded(rollout)
  right = graded & (rollout.columns[:, 0] > 0)
  length = jnp.sum(rollout.mask != 0, axis=-1)
  priority = (_first(length, rollout.group, right, share)
              | _first(-length, rollout.group, graded & ~right, share))
  return jnp.where(priority, base(rollout, advantages), 0.0)


def _first(score, group, where, share):
  """bool[B]: the ceil(share * count) members of each group with the lowest score."""
  order = jnp.argsort(score, stable=True)
  place = jnp.zeros_like(group).at[order].set(groups.index(group[order], where[order]))
  count = groups.count(group, where)
  # Less a rounding error: 0.07 * 100 is above 7, and would give 8.
  return where & (place < jnp.ceil((share - 1e-6) * count))
