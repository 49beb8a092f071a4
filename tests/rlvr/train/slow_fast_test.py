"""SFPO on losses whose every step is known, and the latch that ends it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr import types
from rlvr.train import slow_fast

RATE = .1
H = jnp.array([1., 4.])


def make_state(optimizer, params=(1., 1.)):
  params = {'w': jnp.array(params)}
  return types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optimizer.init(params), anchors={},
      method={}, knobs={}, key=jax.random.key(0))


def descent(optimizer, gradient=lambda w: H * w, broken=lambda w: jnp.zeros((), bool)):
  """A step on a known gradient; the batch is the entropy that it reports."""
  def step(state, batch, *, axis_name=None):
    del axis_name
    w = state.params['w']
    bad = broken(w)
    updates, opt_state = optimizer.update({'w': gradient(w)}, state.opt_state, state.params)
    keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(bad, b, a), new, old)
    metrics = {'skipped': bad.astype(jnp.float32), 'entropy': batch, 'trained_rows': jnp.ones(())}
    return state.replace(
        params=keep(optax.apply_updates(state.params, updates), state.params),
        opt_state=keep(opt_state, state.opt_state)), metrics
  return step


def one(step, optimizer, **options):
  """(params, opt_state, metrics) after one step of sfpo."""
  update = slow_fast.sfpo(step, **options)
  state, metrics = jax.jit(update.step)(update.init(make_state(optimizer)), jnp.float32(1))
  return state.params['w'], state.opt_state, metrics


class TestSfpo:
  SGD = optax.sgd(RATE)
  ADAM = optax.adam(RATE)

  def test_worked(self):
    w, _, metrics = one(descent(self.SGD), self.SGD, fast_steps=2, alpha=.5)
    np.testing.assert_allclose(w, [.8145, .408], rtol=1e-5)
    assert float(metrics['sfpo_alpha']) == .5

  @pytest.mark.parametrize('k, alpha', [(1, .3), (3, .8), (5, .5)])
  def test_closed_form_of_a_quadratic(self, k, alpha):
    w, _, _ = one(descent(self.SGD), self.SGD, fast_steps=k, alpha=alpha)
    q = 1 - RATE * H
    np.testing.assert_allclose(w, q * (1 - alpha * (1 - q ** k)), rtol=1e-5)

  def test_sgd_formula_of_any_loss(self):
    gradient = lambda w: jnp.sin(w) + w ** 3
    w, _, _ = one(descent(self.SGD, gradient), self.SGD, fast_steps=3, alpha=.7)
    at, total = jnp.ones(2), 0.
    for _ in range(3):
      total, at = total + gradient(at), at - RATE * gradient(at)
    middle = 1 + .7 * (at - 1)
    np.testing.assert_allclose(w, 1 - RATE * (.7 * total + gradient(middle)), rtol=1e-5)
    w, _, _ = one(descent(self.SGD, lambda w: H), self.SGD, fast_steps=3, alpha=.7)
    np.testing.assert_allclose(1 - w, RATE * (.7 * 3 + 1) * H, rtol=1e-5)

  @pytest.mark.parametrize('options', [{'alpha': 0.}, {'fast_steps': 0}])
  def test_alpha_0_and_no_fast_steps_are_the_plain_step_to_the_bit(self, options):
    step = descent(self.ADAM)
    w, opt_state, metrics = one(step, self.ADAM, **options)
    expected, _ = jax.jit(step)(make_state(self.ADAM), jnp.float32(1))
    np.testing.assert_array_equal(w, expected.params['w'])
    jax.tree.map(np.testing.assert_array_equal, opt_state, expected.opt_state)
    assert int(opt_state[0].count) == 1 and float(metrics['sfpo_alpha']) == 0

  def test_the_optimiser_runs_on_through_all_updates(self):
    _, opt_state, _ = one(descent(self.ADAM), self.ADAM, fast_steps=3)
    assert int(opt_state[0].count) == 4

  def test_alpha_1_is_so_many_updates_in_a_row(self):
    step = descent(self.SGD)
    state = make_state(self.SGD)
    for _ in range(4):
      state, _ = step(state, jnp.float32(1))
    w, _, _ = one(step, self.SGD, fast_steps=3, alpha=1.)
    np.testing.assert_allclose(w, state.params['w'], rtol=1e-6)

  def test_discarded_fast_steps_would_not_be_the_plain_step(self):
    """Guards the skip: with moments, running and discarding is another step."""
    step = descent(self.ADAM)
    start = make_state(self.ADAM)
    moved = start
    for _ in range(3):
      moved, _ = step(moved, jnp.float32(1))
    discarded, _ = step(moved.replace(params=start.params), jnp.float32(1))
    w, _, _ = one(step, self.ADAM, alpha=0.)
    assert float(jnp.abs(discarded.params['w'] - w).max()) > 1e-4

  def test_a_fast_step_that_is_not_taken_aborts_to_the_plain_step(self):
    broken = lambda w: w[0] < .85  # after two fast steps: .81
    w, opt_state, metrics = one(descent(self.ADAM, broken=broken), self.ADAM)
    expected, _ = jax.jit(descent(self.ADAM))(make_state(self.ADAM), jnp.float32(1))
    np.testing.assert_array_equal(w, expected.params['w'])
    assert int(opt_state[0].count) == 1 and float(metrics['sfpo_alpha']) == 0
    assert float(metrics['skipped']) == 0

  def test_integer_leaves_are_not_repositioned(self):
    start, end = {'n': jnp.array([1]), 'w': jnp.array([1.])}, {
        'n': jnp.array([5]), 'w': jnp.array([3.])}
    mixed = slow_fast._between(start, end, .5)
    assert int(mixed['n'][0]) == 5 and float(mixed['w'][0]) == 2

  @pytest.mark.parametrize('options, named', [
      ({'fast_steps': -1}, 'fast_steps=-1'), ({'alpha': 1.1}, 'alpha=1.1'),
      ({'window': 0}, 'window=0'), ({'threshold': 0.}, 'threshold=0.0')])
  def test_options_out_of_range(self, options, named):
    with pytest.raises(ValueError, match=named):
      slow_fast.sfpo(descent(self.SGD), **options)


class TestLatch:

  def _alphas(self, entropies, **options):
    optimizer = optax.sgd(RATE)
    update = slow_fast.sfpo(descent(optimizer), window=4, **options)
    step, state, alphas = jax.jit(update.step), update.init(make_state(optimizer)), []
    for entropy in entropies:
      state, metrics = step(state, jnp.float32(entropy))
      alphas.append(float(metrics['sfpo_alpha']) > 0)
    return alphas

  def test_a_fall_latches_two_sided_only_and_for_good(self):
    entropies = [1, 1, 1, .2, .2, .2, .2, .2, .2]
    assert self._alphas(entropies) == [True] * 4 + [False] * 5
    assert all(self._alphas(entropies, two_sided=False))

  def test_a_rise_latches_both(self):
    for two_sided in (True, False):
      assert self._alphas([1, 1, 1, 1.8, 1], two_sided=two_sided) == [True] * 4 + [False]

  def test_nothing_latches_before_the_window_is_full_or_at_a_constant(self):
    assert all(self._alphas([1, 2, 9]))
    assert all(self._alphas([.7] * 8))

  def test_z_of_a_constant_is_exactly_zero(self):
    assert float(slow_fast.entropy_z(jnp.full(30, .7))) == 0
    np.testing.assert_allclose(slow_fast.entropy_z(jnp.array([1, 1, 1, .2])), -3 ** .5, rtol=1e-4)
