"""The critic's loss: targets, gradient, the clipped form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import losses
from rlvr import testing

MASK = [[1, 1, 0, 1], [1, 1, 0, 0]]
OLD = jnp.array([[.2, .4, 9, .6], [.5, .1, 9, 9]])


def run(value, **options):
  cell = testing.make_cell(
      [0., 0], mask=MASK, reward=jnp.array([1., 0]), value=OLD)
  out = testing.make_output(jnp.zeros((2, 4)), value=value)
  return losses.value_loss(out, cell, {}, **options), cell.weights['loss']


class TestValueLoss:

  def test_the_target_of_trace_one_is_the_outcome(self):
    (terms, metrics), _ = run(OLD)
    np.testing.assert_allclose(metrics['value_target'], [[1, 1, 0, 1], [0, 0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(
        terms, [[.32, .18, 0, .08], [.125, .005, 0, 0]], rtol=1e-5, atol=1e-8)

  def test_the_target_of_trace_zero_is_the_next_value(self):
    (_, metrics), _ = run(OLD, trace=0.)
    np.testing.assert_allclose(
        metrics['value_target'], [[.4, .6, 0, 1], [.1, 0, 0, 0]], rtol=1e-5, atol=1e-7)
    (_, metrics), _ = run(OLD, trace=0., discount=.5)
    np.testing.assert_allclose(metrics['value_target'][0], [.2, .3, 0, 1], rtol=1e-5)

  def test_its_gradient_is_the_error_and_the_target_is_frozen(self):
    def total(value):
      (terms, _), weights = run(value, trace=.5)
      return testing.objective(terms, weights)
    (_, metrics), _ = run(OLD, trace=.5)
    expected = (OLD - metrics['value_target']) * jnp.array(MASK) / 5  # five tokens in all
    np.testing.assert_allclose(jax.grad(total)(OLD), expected, rtol=1e-5, atol=1e-7)

  def test_clipped_values_take_the_larger_loss(self):
    moved = OLD.at[0, 0].set(.9).at[0, 1].set(.1)  # towards the target 1; away from it
    (terms, _), _ = run(moved, clip=.2)
    np.testing.assert_allclose(terms[0, 0], .5 * .6 ** 2, rtol=1e-5)  # held at .2 + .2
    np.testing.assert_allclose(terms[0, 1], .5 * .9 ** 2, rtol=1e-5)  # its own is larger
    grad = jax.grad(lambda v: jnp.sum(run(v, clip=.2)[0][0]))(moved)
    np.testing.assert_allclose(grad[0, :2], [0, -.9], rtol=1e-5)

  @pytest.mark.parametrize('options, named', [
      ({'discount': 2.}, 'discount=2.0'), ({'trace': -1.}, 'trace=-1'), ({'clip': -1.}, 'clip=-1')])
  def test_options_out_of_range(self, options, named):
    with pytest.raises(ValueError, match=named):
      run(OLD, **options)

  def test_without_a_critic(self):
    with pytest.raises(ValueError, match='critic.value=value_head'):
      run(None)
