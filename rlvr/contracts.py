"""What every part of a stage must do, as checks that tests run over a table.

Each check takes a part with its options bound and raises AssertionError. They
go over the same hostile grid: one-member, all-equal, empty and uneven groups,
zero-length rows, ungraded and padding rows with NaN in them, NaN off the mask.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import hostile
from rlvr import stages
from rlvr import testing
from rlvr import types

Array = jax.Array

def _once(part):
  """jit(part), failing on a second trace: equal shapes must not retrace."""
  traces = []

  def counted(*args):
    assert not traces, f'{part} was traced twice for equal shapes'
    traces.append(1)
    return part(*args)

  return jax.jit(counted)


_ORDER = (3, 7, 0, 5, 1, 6, 4, 2)  # a permutation of the grid's eight rows


def _close(actual, expected, name):
  np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6, err_msg=name)


def _check_rows(part, rollouts, per_token, permutes):
  """Shapes, f32, finite, jit = eager, one trace, permutation, bf16, debug_nans."""
  jitted = _once(part)
  results = {}
  for name, rollout in rollouts.items():
    result = np.asarray(jitted(rollout))
    shapes = {rollout.where.shape} | ({rollout.mask.shape} if per_token else set())
    assert result.shape in shapes, f'{name}: {result.shape} is not one of {shapes}'
    assert result.dtype == np.float32, f'{name}: {result.dtype}'
    assert np.isfinite(result).all(), f'{name}: {result}'
    if permutes:
      order = np.array(_ORDER)
      _close(jitted(hostile.permute(rollout, order)), result[order], f'{name}, permuted')
    results[name] = result
  for name in list(rollouts)[::3]:
    _close(part(rollouts[name]), results[name], f'{name}, eager')
  low = np.asarray(jax.jit(part)(hostile.as_bfloat16(rollouts['ungraded'])))
  assert low.dtype == np.float32 and np.isfinite(low).all(), f'bf16: {low}'
  with jax.debug_nans(True):
    jax.block_until_ready(jax.jit(part)(rollouts['ungraded']))
  return results


def check_reward(part: stages.Reward, *, permutes: bool = True) -> None:
  """f32[B], finite, 0 on rows that hold no response or have no verdict."""
  rollouts = hostile.rollouts()
  for name, result in _check_rows(part, rollouts, False, permutes).items():
    outside = ~np.asarray(types.graded(rollouts[name]))
    assert (result[outside] == 0).all(), f'{name}: {result}'


def check_advantage(part: stages.Advantage, *, permutes: bool = True) -> None:
  """f32[B] or f32[B, T]; ungraded rows are outside the statistics and get 0.

  Args:
    part: the advantage.
    permutes: False for a method whose ties are broken by row order.
  """
  rollouts = hostile.rollouts()
  results = _check_rows(part, rollouts, True, permutes)
  for name, result in results.items():
    outside = ~np.asarray(types.graded(rollouts[name]))
    assert (result[outside] == 0).all(), f'{name}: {result}'
    if result.ndim == 2:
      assert (result[np.asarray(rollouts[name].mask) == 0] == 0).all(), f'{name}: off the mask'
  rollout = rollouts['ungraded']
  filled = rollout.replace(reward=jnp.where(rollout.graded, rollout.reward, 7.0))
  _close(part(filled), results['ungraded'], 'rewards of ungraded rows entered')
  absent = rollout.replace(where=rollout.where & rollout.graded)
  _close(part(absent), results['ungraded'], 'ungraded rows were counted')


def check_transform(part: stages.Transform) -> None:
  """Same shape as the advantages, [B] and [B, T] alike; ungraded rows stay 0."""
  def per_row(r):
    return jnp.where(types.graded(r), r.reward.astype(jnp.float32) - 0.25, 0.0)

  def per_token(r):
    return jnp.where(r.mask != 0, per_row(r)[:, None] * (1 + r.entropy), 0.0)

  for make in (per_row, per_token):
    rollouts = hostile.rollouts()
    results = _check_rows(lambda r, make=make: part(make(r), r), rollouts, True, True)
    for name, result in results.items():
      assert result.shape == make(rollouts[name]).shape, name
      outside = ~np.asarray(types.graded(rollouts[name]))
      assert (result[outside] == 0).all(), f'{name}: {result}'


def check_selection(part: stages.Selection, *, permutes: bool = True) -> None:
  """f32[B], at least 0, exactly 0 on rows that hold no response."""
  rollouts = hostile.rollouts()
  centred = lambda r: part(r, jnp.where(types.graded(r), r.reward, 0.0))
  for name, result in _check_rows(centred, rollouts, False, permutes).items():
    assert (result >= 0).all(), f'{name}: {result}'
    assert (result[~np.asarray(rollouts[name].where)] == 0).all(), f'{name}: {result}'


def check_mask(part: Callable[[types.Rollout], Array]) -> None:
  """f32[B, T] of 0 and 1, 0 on rows that hold no response and off `valid`."""
  rollouts = hostile.rollouts()
  for name, result in _check_rows(part, rollouts, True, True).items():
    assert result.ndim == 2 and np.isin(result, (0, 1)).all(), name
    real = np.asarray(rollouts[name].valid & rollouts[name].where[:, None])
    assert (result[~real] == 0).all(), name


def check_correction(part: stages.Correction) -> None:
  """1 where the two agree and off the mask, finite at -inf, no gradient."""
  nan, inf = np.nan, np.inf
  mask = jnp.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], jnp.float32)
  old = jnp.array([[-1, -2, -.5, nan], [-inf, -inf, -3, -200], [nan, -inf, inf, 0]])
  rolled = jnp.array([[-1, -2, -.5, -inf], [-1, -inf, -inf, -1], [0, nan, 0, nan]])
  jitted = _once(part)
  result = np.asarray(jitted(old, rolled, mask))
  assert result.shape == mask.shape and result.dtype == np.float32
  assert np.isfinite(result).all() and (result >= 0).all(), result
  np.testing.assert_array_equal(result[0], 1.0)
  np.testing.assert_array_equal(result[2], 1.0)
  _close(part(old, rolled, mask), result, 'eager')
  grads = jax.grad(lambda a, b: jnp.sum(part(a, b, mask)), (0, 1))(old, rolled)
  for grad in grads:
    np.testing.assert_array_equal(grad, 0.0)
  order = jnp.array([1, 2, 0])
  _close(jitted(old[order], rolled[order], mask[order]), result[order], 'permuted')
  low = part(old.astype(jnp.bfloat16), rolled.astype(jnp.bfloat16), mask.astype(jnp.bfloat16))
  assert low.dtype == jnp.float32 and bool(jnp.isfinite(low).all())


def check_aggregate(part: stages.Aggregate) -> None:
  """Zero off the mask and off `where`, finite when empty, linear in row_weight."""
  mask = jnp.array([[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0]], jnp.float32)
  where = jnp.array([True, True, True, True, False])
  group = jnp.array([0, 0, 1, 3, 1])
  ones = jnp.ones(5)
  jitted = _once(part)
  result = np.asarray(jitted(mask, ones, where, group))
  assert result.shape == mask.shape and result.dtype == np.float32
  assert (result >= 0).all() and np.isfinite(result).all()
  on = np.asarray((mask != 0) & where[:, None])
  assert (result[~on] == 0).all() and (result[on] > 0).all(), result
  _close(part(mask, ones, where, group), result, 'eager')
  # row_weight scales its own row and no divisor.
  row_weight = jnp.array([2, .5, 3, 0, np.nan])
  _close(jitted(mask, row_weight, where, group),
         result * np.nan_to_num(row_weight)[:, None], 'row_weight')
  order = jnp.array([4, 2, 0, 3, 1])
  _close(jitted(mask[order], ones, where[order], group[order]), result[order], 'permuted')
  # Padding, of columns or of rows, changes nothing.
  wide = part(jnp.pad(mask, ((0, 0), (0, 4))), ones, where, group)
  np.testing.assert_array_equal(wide[:, :3], result)
  kept = part(mask[:4], ones[:4], where[:4], group[:4])
  np.testing.assert_allclose(kept, result[:4], rtol=1e-6)
  # Nothing to count.
  np.testing.assert_array_equal(jitted(jnp.zeros_like(mask), ones, where, group), 0.0)
  np.testing.assert_array_equal(jitted(mask, ones, jnp.zeros_like(where), group), 0.0)
  low = part(mask.astype(jnp.bfloat16), ones.astype(jnp.bfloat16), where, group)
  assert low.dtype == jnp.float32


def check_loss(
    part: stages.Loss,
    *,
    advantage_only: bool = False,
    knobs: dict[str, Array] | None = None,
    edit: Callable[..., tuple[types.PolicyOutput, types.Batch]] = lambda out, cell: (out, cell),
    permutes: bool = True,
) -> None:
  """Terms and metrics f32[n, T], finite; off the mask 0 in value and gradient.

  Args:
    part: the loss term.
    advantage_only: it is in losses.ADVANTAGE_ONLY, so no gradient at advantage 0.
    knobs: what it reads.
    edit: (out, cell) -> (out, cell), adds the fields that the term needs.
    permutes: False for a term that is not equivariant to the order of rows.
  """
  knobs = knobs or {}
  out, cell = edit(*hostile.cell())
  jitted = _once(part)
  terms, metrics = jitted(out, cell, knobs)
  off = np.asarray(cell.mask) == 0
  for name, value in {'terms': terms, **metrics}.items():
    value = np.asarray(value)
    assert value.shape == off.shape and value.dtype == np.float32, f'{name}: {value.dtype}'
    assert np.isfinite(value).all(), f'{name}: {value}'
    assert (value[off] == 0).all(), f'{name} off the mask: {value}'
  eager = part(out, cell, knobs)
  jax.tree.map(lambda a, b: _close(a, b, 'eager'), eager, (terms, metrics))

  def total(out, cell):
    terms, metrics = part(out, cell, knobs)
    return testing.objective(terms, cell.weights['loss']), metrics

  grad_of = jax.jit(jax.grad(total, has_aux=True))
  grads = grad_of(out, cell)[0]
  for grad in jax.tree.leaves(grads):
    grad = np.asarray(grad)
    assert np.isfinite(grad).all(), grad
    if grad.shape[:2] == off.shape:
      assert (grad[off] == 0).all(), f'gradient off the mask: {grad}'
  # Metrics are readings, not objectives.
  readings = jax.grad(
      lambda out: sum(jnp.sum(m) for m in part(out, cell, knobs)[1].values()) + 0.0)(out)
  for grad in jax.tree.leaves(readings):
    np.testing.assert_array_equal(grad, 0.0)
  if advantage_only:
    flat = cell.replace(advantages=jnp.where(cell.mask != 0, 0.0, jnp.nan))
    for grad in jax.tree.leaves(grad_of(out, flat)[0]):
      np.testing.assert_array_equal(grad, 0.0)
  nothing = cell.replace(weights={'loss': jnp.zeros_like(cell.mask)})
  for grad in jax.tree.leaves(grad_of(out, nothing)[0]):
    np.testing.assert_array_equal(grad, 0.0)
  # On policy, with nothing scored that need not be.
  bare = cell.replace(old_logp=None, correction=None)
  assert bool(jnp.isfinite(part(out, bare, knobs)[0]).all())
  if permutes:
    order = jnp.array([2, 0, 3, 1])
    take = lambda tree: jax.tree.map(lambda x: x[order], tree)
    moved = take(cell.replace(prompts=None, teacher_prompts=None, used=None))
    moved = moved.replace(prompts=cell.prompts, teacher_prompts=cell.teacher_prompts)
    _close(part(take(out), moved, knobs)[0], np.asarray(terms)[order], 'permuted')
  low, _ = part(hostile.as_bfloat16(out), hostile.as_bfloat16(cell), knobs)
  assert low.dtype == jnp.float32 and bool(jnp.isfinite(low).all()), f'bf16: {low}'
  with jax.debug_nans(True):
    jax.block_until_ready(jax.jit(jax.grad(total, has_aux=True))(out, cell)[1])
