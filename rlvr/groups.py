"""Reductions by group id over rows, and masked reductions over the tokens of a row.

A group is an id on the row, so uneven groups, replayed rows and branches are the
plain case; nothing is reshaped. Every reduction takes `where`, the members that
count, and returns the group's value on each row, so that
`reward - groups.mean(reward, group, where)` reads like the formula. What lies
outside `where` is selected away before any arithmetic: a NaN there reaches
neither a value nor a gradient.

Shared arguments:
  x: f32[B] or f32[B, ...], reduced over rows in f32 whatever its type.
  group: i32[B], ids in 0 <= group < B (as in `types.Rollout`).
  where: bool, of x's shape: the entries that enter the statistics.

A group without members gives 0 everywhere. Rows outside `where` get the value
of the group that they name.
"""

import chex
import jax
import jax.numpy as jnp

Array = jax.Array

VARIANCE_FLOOR = 1e-8  # of `whiten`


def zero_off(x: Array, where: Array) -> Array:
  """x in f32 where `where` is not zero or False, 0 elsewhere; same shapes."""
  chex.assert_equal_shape([x, where])
  return jnp.where(where != 0, x.astype(jnp.float32), 0.0)


def _check(x, group, where):
  chex.assert_rank(group, 1)
  chex.assert_type(where, bool)
  chex.assert_equal_shape([x, where])
  chex.assert_equal_shape_prefix([x, group], 1)


def _segment_sum(x, group):
  return jax.ops.segment_sum(x, group, num_segments=group.shape[0])


def count(group: Array, where: Array) -> Array:
  """i32 of where's shape: how many members the row's group has."""
  _check(where, group, where)
  return _segment_sum(where.astype(jnp.int32), group)[group]


def sum(x: Array, group: Array, where: Array) -> Array:
  """f32 of x's shape: the sum over the row's group."""
  _check(x, group, where)
  return _segment_sum(zero_off(x, where), group)[group]


def max(x: Array, group: Array, where: Array) -> Array:
  """f32 of x's shape: the largest value of the row's group."""
  _check(x, group, where)
  filled = jnp.where(where, x.astype(jnp.float32), -jnp.inf)
  result = jax.ops.segment_max(filled, group, num_segments=group.shape[0])[group]
  return jnp.where(count(group, where) > 0, result, 0.0)


def min(x: Array, group: Array, where: Array) -> Array:
  """f32 of x's shape: the smallest value of the row's group."""
  _check(x, group, where)
  filled = jnp.where(where, x.astype(jnp.float32), jnp.inf)
  result = jax.ops.segment_min(filled, group, num_segments=group.shape[0])[group]
  return jnp.where(count(group, where) > 0, result, 0.0)


def all_equal(x: Array, group: Array, where: Array) -> Array:
  """bool of x's shape: max = min in the row's group; True without members."""
  return max(x, group, where) == min(x, group, where)


def mean(x: Array, group: Array, where: Array) -> Array:
  """f32 of x's shape: the mean of the row's group.

  Taken as min + mean(x - min), so that the mean of equal values is that value to
  the bit; a plain f32 sum misses by an ulp, which group_norm would blow up.
  """
  _check(x, group, where)
  shift = jax.lax.stop_gradient(min(x, group, where))
  total = _segment_sum(zero_off(zero_off(x, where) - shift, where), group)[group]
  return shift + total / jnp.maximum(count(group, where), 1)


def variance(x: Array, group: Array, where: Array, *, ddof: int = 0) -> Array:
  """f32 of x's shape: sum (x - mean)^2 / (count - ddof), in two passes.

  0 for an all-equal group, and where count <= ddof.
  """
  centred = zero_off(zero_off(x, where) - mean(x, group, where), where)
  squares = _segment_sum(jnp.square(centred), group)[group]
  degrees = count(group, where) - ddof
  return jnp.where(degrees > 0, squares / jnp.maximum(degrees, 1), 0.0)


def std(x: Array, group: Array, where: Array, *, ddof: int = 0) -> Array:
  """f32 of x's shape: sqrt(variance), with gradient 0 (not NaN) at an all-equal group."""
  var = variance(x, group, where, ddof=ddof)
  spread = var > 0
  return jnp.where(spread, jnp.sqrt(jnp.where(spread, var, 1.0)), 0.0)


def leave_one_out(x: Array, group: Array, where: Array) -> Array:
  """f32 of x's shape: the mean of the group's other members.

  mean - (x - mean) / (count - 1) on a member. A sole member has no others and
  gets 0; a row outside `where` gets the mean of all members.
  """
  centre = mean(x, group, where)
  others = count(group, where) - 1
  member = jnp.where(
      others > 0, centre - (zero_off(x, where) - centre) / jnp.maximum(others, 1), 0.0)
  return jnp.where(where, member, centre)


def group_norm(
    x: Array, group: Array, where: Array, *, ddof: int = 0, eps: float = 1e-6
) -> Array:
  """(x - mean) / (std + eps) within the group, over any id.

  Args:
    x, group, where: see the module.
    ddof: 0 divides the variance by the count, 1 by the count less one.
    eps: added to the std.

  Returns:
    f32 of x's shape; exactly 0 off `where`, in an all-equal group (tested by
    max = min) and for a sole member, whatever eps; its gradient there is finite.
  """
  centred = zero_off(x, where) - mean(x, group, where)
  scale = std(x, group, where, ddof=ddof) + eps
  scaled = centred / jnp.where(scale > 0, scale, 1.0)
  return jnp.where(where & ~all_equal(x, group, where), scaled, 0.0)


def whiten(x: Array, where: Array) -> Array:
  """(x - mean) / sqrt(max(variance, 1e-8)) over all entries of `where`, any shape.

  Returns:
    f32 of x's shape; 0 off `where`, and everywhere if the entries are all equal.
  """
  kept = where != 0
  size = jnp.maximum(jnp.sum(kept), 1)
  # Shifted by the minimum, so that equal entries are centred to exactly 0.
  filled = jnp.where(kept, x.astype(jnp.float32), jnp.inf)
  low = jax.lax.stop_gradient(jnp.min(filled, initial=jnp.inf))
  shifted = zero_off(zero_off(x, where) - jnp.where(jnp.isfinite(low), low, 0.0), where)
  centred = zero_off(shifted - jnp.sum(shifted) / size, where)
  var = jnp.sum(jnp.square(centred)) / size
  return centred / jnp.sqrt(jnp.maximum(var, VARIANCE_FLOOR))


def _sorted_by_group(x, group, where):
  """Rows by (group, x), members first: values, order, each group's first place."""
  num_rows = group.shape[0]
  key = jnp.where(where, group, num_rows)
  values = zero_off(x, where)
  order = jnp.lexsort((values, key))
  sizes = _segment_sum(where.astype(jnp.int32), group)
  return values[order], order, jnp.cumsum(sizes) - sizes


def median(x: Array, group: Array, where: Array, *, lower: bool = False) -> Array:
  """f32[B]: the median of the row's group.

  Of an even number it is the middle two's mean, or, with `lower`, the smaller
  of the two, which is always the value of a member.
  """
  chex.assert_rank(x, 1)
  _check(x, group, where)
  values, _, start = _sorted_by_group(x, group, where)
  size = count(group, where)
  first = start[group]
  last = group.shape[0] - 1
  low = values[jnp.minimum(first + jnp.maximum(size - 1, 0) // 2, last)]
  high = low if lower else values[jnp.minimum(first + size // 2, last)]
  return jnp.where(size > 0, low + (high - low) / 2, 0.0)


def rank(x: Array, group: Array, where: Array) -> Array:
  """f32[B]: ascending rank from 0 within the group; ties share their mean rank.

  0 off `where`. Permuting rows permutes the result. It carries no gradient.
  """
  chex.assert_rank(x, 1)
  _check(x, group, where)
  num_rows = group.shape[0]
  values, order, start = _sorted_by_group(x, group, where)
  key = jnp.where(where, group, num_rows)[order]
  place = jnp.arange(num_rows)
  new_run = jnp.concatenate([
      jnp.ones((1,), bool),
      (values[1:] != values[:-1]) | (key[1:] != key[:-1]),
  ])[:num_rows]
  run = jnp.cumsum(new_run) - 1
  first = jax.ops.segment_min(place, run, num_segments=num_rows)[run]
  last = jax.ops.segment_max(place, run, num_segments=num_rows)[run]
  shared = (first + last) / 2
  on_rows = jnp.zeros((num_rows,), jnp.float32).at[order].set(shared)
  return jnp.where(where, on_rows - start[group], 0.0)


def index(group: Array, where: Array) -> Array:
  """i32[B]: the member's place among its group's members in row order; 0 off `where`.

  `where & (index(ids, where) == 0)` is one row per id, for a statistic that is
  taken once per trajectory.
  """
  chex.assert_rank(where, 1)
  _check(where, group, where)
  num_rows = group.shape[0]
  key = jnp.where(where, group, num_rows)
  order = jnp.argsort(key, stable=True)
  sizes = _segment_sum(where.astype(jnp.int32), group)
  start = jnp.cumsum(sizes) - sizes
  place = jnp.zeros((num_rows,), jnp.int32).at[order].set(jnp.arange(num_rows, dtype=jnp.int32))
  return jnp.where(where, place - start[group], 0)


def row_sum(x: Array, mask: Array) -> Array:
  """f32[B]: sum of x [B, T] over the tokens of the mask; 0 for an empty row."""
  chex.assert_rank([x, mask], 2)
  return jnp.sum(zero_off(x, mask), axis=-1)


def row_mean(x: Array, mask: Array) -> Array:
  """f32[B]: mean of x [B, T] over the tokens of the mask; 0 for an empty row."""
  num_tokens = jnp.sum(mask != 0, axis=-1)
  return row_sum(x, mask) / jnp.maximum(num_tokens, 1)


def last_token(mask: Array) -> Array:
  """f32[B, T]: 1 on the last token of the mask in each row; an empty row has none."""
  chex.assert_rank(mask, 2)
  kept = mask != 0
  after = jnp.cumsum(kept[:, ::-1], axis=1)[:, ::-1]
  return (kept & (after == 1)).astype(jnp.float32)
