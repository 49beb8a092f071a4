"""ReMix's shifted band by hand, and that it is PPO where rows are fresh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import losses
from rlvr import testing


def run(r, advantages, c, **options):
  """Terms, gradient on logp and metrics; the row was written at logp - log r."""
  logp = jnp.full((1, len(r)), -1.)
  gen = logp - jnp.log(jnp.asarray(r, jnp.float32))[None]
  old = None if c is None else gen + jnp.log(c)
  cell = testing.make_cell(jnp.asarray([advantages], jnp.float32), mask=jnp.ones_like(logp),
                           old_logp=old, gen_logp=gen)

  def loss(logp):
    terms, metrics = losses.mix_ppg(testing.make_output(logp), cell, {}, **options)
    return testing.objective(terms, cell.weights['loss']), (terms, metrics)

  grad, (terms, metrics) = jax.grad(loss, has_aux=True)(logp)
  return np.asarray(terms)[0], np.asarray(grad)[0], metrics, lambda x: loss(x)[0], logp


class TestMixPpg:

  def test_worked(self):
    terms, grad, metrics, *_ = run([2.3, 2.1, 1.7], 1., 2.)
    np.testing.assert_allclose(terms, [-2.2, -2.1, -1.7], rtol=1e-5)
    np.testing.assert_allclose(grad, [0, -.7, -.5667], rtol=1e-3)
    np.testing.assert_array_equal(metrics['clip_share'], [[1, 0, 0]])
    _, grad, *_ = run([2.3, 2.1, 1.7], -1., 2.)
    np.testing.assert_allclose(grad, [.7667, .7, 0], rtol=1e-3)

  def test_at_the_start_of_the_step_nothing_is_clipped(self):
    for c in (.01, .5, 1., 40.):
      for advantage in (1., -1.):
        _, grad, metrics, *_ = run([c, c], advantage, c)
        np.testing.assert_allclose(grad, -advantage * c / 2 * np.ones(2), rtol=1e-4)
        assert not metrics['clip_share'].any()

  def test_fresh_rows_are_ppo(self):
    logp = jnp.log(jnp.array([[.5, .7, .9, 1.1]]) * .5)
    for gen in (None, jnp.full((1, 4), jnp.log(.5))):
      for advantage in (1., -1.):
        cell = testing.make_cell([advantage], mask=jnp.ones((1, 4)),
                                 old_logp=jnp.full((1, 4), jnp.log(.5)), gen_logp=gen)
        grad = lambda part, cell=cell: jax.grad(
            lambda x: part(testing.make_output(x), cell, {})[0].sum())(logp)
        np.testing.assert_allclose(grad(losses.mix_ppg), grad(losses.surrogate), rtol=1e-5)

  def test_gradient_against_finite_differences(self):
    for advantage in (1., -.5):
      _, grad, _, loss, logp = run([2.5, 2.1, 1.9, 1.5], advantage, 2.)
      for i in range(4):
        numeric = (loss(logp.at[0, i].add(.004)) - loss(logp.at[0, i].add(-.004))) / .008
        np.testing.assert_allclose(grad[i], numeric, atol=2e-3)

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}])
  def test_out_of_range(self, options):
    with pytest.raises(ValueError, match='mix_ppg'):
      run([1.], 1., 1., **options)
