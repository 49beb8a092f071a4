"""Several rewards of one response kept apart: columns of the verdict, and their weighted sum.

Column 0 is the raw outcome; the others are the parts that the verifier names,
in the order of their names. A column that does not apply to a row is 0 there.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types

Array = jax.Array


def graded_columns(rollout: types.Rollout) -> Array:
  """f32[B, S]: the columns, 0 on ungraded rows and where a column does not apply.

  Raises:
    ValueError: the rollout has no columns.
  """
  if rollout.columns is None:
    raise ValueError('rollout.columns is None; a reward is formed after verification.')
  # A NaN is a reward that nobody gave.
  where = types.graded(rollout)[:, None] & ~jnp.isnan(rollout.columns)
  if rollout.column_where is not None:
    where &= rollout.column_where
  return groups.zero_off(rollout.columns, where)


def column_weights(weights: tuple, num_columns: int, part: str) -> tuple[float, ...]:
  """One weight a column: () is 1 for all, columns beyond the last one given have 0.

  Raises:
    ValueError: more weights than columns.
  """
  if len(weights) > num_columns:
    raise ValueError(
        f'{part}: weights={weights} has {len(weights)} entries for the {num_columns} columns of '
        'the verifier (the outcome first, then its named parts).')
  if not weights:
    return (1.0,) * num_columns
  return (*map(float, weights), *(0.0,) * (num_columns - len(weights)))


def weighted_columns(rollout: types.Rollout, *, weights: tuple = (1.0,)) -> Array:
  """r = sum_s weights[s] * column_s: several rewards added before any normalisation.

  Args:
    rollout: reads columns f32[B, S], column_where, graded, where.
    weights: one a column, the outcome's first; columns beyond the last have
      weight 0, () gives every column weight 1.

  Returns:
    f32[B]; 0 on ungraded rows. The default is the outcome.

  Raises:
    ValueError: more weights than columns, or no columns.
  """
  columns = graded_columns(rollout)
  weights = column_weights(weights, columns.shape[1], 'weighted_columns')
  return sum(weight * columns[:, s] for s, weight in enumerate(weights))
