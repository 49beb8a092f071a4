"""Several rewards, each normalised on its own: GDPO and its parts.

They read rollout.columns, not the shaped reward: column 0 is the raw outcome, the
others are the verifier's named parts.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.rewards import columns as columns_lib

Array = jax.Array

LEVELS = ('response', 'token')


def each_column(columns: Array, rollout: types.Rollout, base) -> Array:
  """f32[B, S]: the advantage `base` of each column of f32[B, S] apart.

  Raises:
    ValueError: base gives an advantage for each token.
  """
  apart = [base(rollout.replace(reward=columns[:, s])) for s in range(columns.shape[1])]
  if apart[0].ndim != 1:
    raise ValueError('The base of a sum over rewards must give one advantage a response.')
  return jnp.stack(apart, axis=1)


def per_column(
    rollout: types.Rollout, *, base=group_relative.grpo, weights: tuple = ()
) -> Array:
  """U = sum_s weights[s] * base(column s): normalised apart, then added.

  Args:
    rollout: reads columns f32[B, S], column_where, group, graded, where.
    base: an advantage of one number a response.
    weights: one a column, the outcome's first; columns beyond the last have
      weight 0, () gives every column weight 1.

  Returns:
    f32[B]. A column that is constant in a group adds 0 there; one that does not
    apply to a row counts as 0. One column: base of the outcome.

  Raises:
    ValueError: more weights than columns, or no columns.
  """
  columns = columns_lib.graded_columns(rollout)
  return _weighted(columns, rollout, base, weights, 'per_column')


def gdpo(
    rollout: types.Rollout,
    *,
    base=group_relative.grpo,
    weights: tuple = (),
    gates: tuple = (),
    level: str = 'response',
    batch_norm: bool = True,
    eps: float = 1e-6,
) -> Array:
  """A = (U - mean U) / (std U + eps) over the batch, U the sum of per-reward advantages.

  U = sum_s weights[s] * (r_s - mean_group r_s) / (std_group r_s + eps).

  Args:
    rollout: reads columns f32[B, S], column_where, group, graded, where, and mask
      at token level.
    base: the advantage of one reward; it has an eps of its own.
    weights: see `per_column`.
    gates: triples (k, l, threshold), applied in order before anything else:
      column k counts only where column l >= threshold and is 0 elsewhere, so that
      an easy reward is worth something only once the hard one is met.
    level: 'response' takes the batch's statistics over graded responses, 'token'
      over their policy tokens: each response weighs its length.
    batch_norm: False gives U; with one column that is GRPO.
    eps: added to the batch's std.

  Returns:
    f32[B], or f32[B, T] at token level, 0 off the mask. No spread anywhere gives
    zeros. Groups of equal sum but unequal parts carry signal: filter by
    `selection.live_groups`, which reads the advantage.

  Raises:
    ValueError: an unknown level, a gate that names no column, more weights than
      columns.

  Source: GDPO (arXiv 2601.05242). Provenance: official code read (NVlabs/GDPO:
  the TRL and verl trainers) and the abstract; `gates` from knowledge of the
  paper's discussion. The official code has ddof 1 and eps 1e-4 in one backend,
  token-level whitening in the other, and falls back to GRPO for one reward.
  """
  if level not in LEVELS:
    raise ValueError(f'gdpo: level={level!r} must be one of {", ".join(LEVELS)}.')
  columns = gated(columns_lib.graded_columns(rollout), gates)
  total = _weighted(columns, rollout, base, weights, 'gdpo')
  if not batch_norm:
    return total
  where = types.graded(rollout)
  if level == 'response':
    return groups.group_norm(total, jnp.zeros_like(rollout.group), where, eps=eps)
  tokens = (where[:, None] & (rollout.mask != 0)).reshape(-1)
  flat = jnp.broadcast_to(total[:, None], rollout.mask.shape).reshape(-1)
  normal = groups.group_norm(flat, jnp.zeros(flat.shape, jnp.int32), tokens, eps=eps)
  return normal.reshape(rollout.mask.shape)


def gated(columns: Array, gates: tuple) -> Array:
  """f32[B, S]: column k, for each gate (k, l, threshold), 0 where column l < threshold.

  Raises:
    ValueError: a gate that names no column.
  """
  for k, hard, threshold in gates:
    if not (0 <= k < columns.shape[1] and 0 <= hard < columns.shape[1]):
      raise ValueError(
          f'gdpo: gates={gates} names a column outside 0 ... {columns.shape[1] - 1}.')
    columns = columns.at[:, k].set(jnp.where(columns[:, hard] >= threshold, columns[:, k], 0.0))
  return columns


def _weighted(columns, rollout, base, weights, part):
  weights = columns_lib.column_weights(weights, columns.shape[1], part)
  apart = each_column(columns, rollout, base)
  return sum(weight * apart[:, s] for s, weight in enumerate(weights))
