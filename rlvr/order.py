"""What needs sorting, over rows: quantiles, the pivot of a group, dense ids of labels.

Shared arguments are those of groups.py; what lies outside `where` is selected
away before any arithmetic. Nothing here carries a useful gradient.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups

Array = jax.Array


def quantile(x: Array, where: Array, q: float) -> Array:
  """f32[]: the q-quantile of the entries of `where`, linear between order statistics.

  Args:
    x: of any shape.
    where: of x's shape, 0 or False where an entry does not count.
    q: in [0, 1]; 0.5 is the median.

  Returns:
    f32[]; 0 where no entry counts.
  """
  chex.assert_equal_shape([x, where])
  kept = (where != 0).reshape(-1)
  values = jnp.sort(jnp.where(kept, x.astype(jnp.float32).reshape(-1), jnp.inf))
  values = jnp.where(jnp.isfinite(values), values, 0.0)  # an empty set is all infinite
  last = jnp.maximum(jnp.sum(kept) - 1, 0)
  place = q * last.astype(jnp.float32)
  low = jnp.floor(place).astype(jnp.int32)
  below, above = values[low], values[jnp.minimum(low + 1, last)]
  return below + (place - low) * (above - below)


def pivot(x: Array, group: Array, where: Array) -> tuple[Array, Array]:
  """The lower median of each group, and the one row that stands for it.

  Args:
    x, group, where: f32[B], i32[B], bool[B].

  Returns:
    f32[B], the lower median of the row's group (always the value of a member),
    and bool[B], True on the first row, in row order, of each group that has it.
  """
  median = groups.median(x, group, where, lower=True)
  ties = where & (groups.zero_off(x, where) == median)
  return median, ties & (groups.index(group, ties) == 0)


def dense(*labels: Array) -> Array:
  """i32[B]: one id 0 <= id < B for each combination of labels i32[B] that occurs."""
  chex.assert_rank(labels, 1)
  num_rows = labels[0].shape[0]
  by_label = jnp.lexsort(labels[::-1])
  changes = jnp.zeros((num_rows,), bool)
  for label in labels:
    changes = changes.at[1:].set(changes[1:] | (label[by_label][1:] != label[by_label][:-1]))
  ids = jnp.cumsum(changes).astype(jnp.int32)
  return jnp.zeros((num_rows,), jnp.int32).at[by_label].set(ids)
