"""The clip: edges by hand, dual clip, DAPO's clip-higher."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr.losses import clips


def _grad(ratio, advantage, **options):
  objective = lambda r: clips.ppo_clip(r, jnp.full_like(r, advantage), **options)[0].sum()
  return jax.grad(objective)(jnp.array([ratio]))[0]


class PpoClipTest(chex.TestCase):

  @chex.all_variants
  def test_equals_the_minimum(self):
    ratio, adv = jnp.meshgrid(jnp.array([.1, .79, .9, 1., 1.1, 1.21, 5.]), jnp.array([-2., 0, 1]))
    objective, clipped = self.variant(clips.ppo_clip)(ratio, adv)
    expected = jnp.minimum(ratio * adv, jnp.clip(ratio, .8, 1.2) * adv)
    np.testing.assert_allclose(objective, expected, rtol=1e-6)
    cut = ((adv > 0) & (ratio > 1.2)) | ((adv < 0) & (ratio < .8))
    np.testing.assert_array_equal(clipped, cut)

  def test_clip_higher(self):
    """rho 1.25, A 1: passes at .28, cut at .2; the lower edge is untouched."""
    np.testing.assert_allclose(_grad(1.25, 1., high=.28), 1.0)
    np.testing.assert_array_equal(_grad(1.25, 1.), 0.0)
    for high in (.2, .28):
      np.testing.assert_array_equal(_grad(.79, -1., high=high), 0.0)
      np.testing.assert_allclose(_grad(5., -1., high=high), -1.0)

  def test_dual(self):
    """A < 0 and rho > dual: the loss is capped at -dual * A and its gradient cut."""
    clip = functools.partial(clips.ppo_clip, dual=3.)
    objective, clipped = clip(jnp.array([5., 2., 5.]), jnp.array([-1., -1, 1]))
    np.testing.assert_allclose(objective, [-3, -2, 1.2])
    np.testing.assert_array_equal(clipped, [1, 0, 1])
    np.testing.assert_array_equal(_grad(5., -1., dual=3.), 0.0)
    np.testing.assert_allclose(_grad(2.9, -1., dual=3.), -1.0)

  def test_no_tie_halves_the_gradient_on_policy(self):
    np.testing.assert_allclose(_grad(1., 1.), 1.0)
    np.testing.assert_allclose(_grad(1., -1.), -1.0)

  def test_fault_27_overflow_times_zero(self):
    """fault 27: any finite ratio at advantage 0 gives 0, not NaN."""
    for part in clips.CLIPS.values():
      value, grad = jax.value_and_grad(
          lambda r, part=part: part(r, jnp.zeros(1))[0].sum())(jnp.exp(jnp.array([20.])))
      np.testing.assert_array_equal((value, grad[0]), 0.0)

  def test_ranges(self):
    ones = jnp.ones(1)
    for options in (dict(low=-.1), dict(high=-.1), dict(dual=.5)):
      with pytest.raises(ValueError, match='ppo_clip'):
        clips.ppo_clip(ones, ones, **options)


class SapoTest(chex.TestCase):

  def _grad(self, ratio, advantage, **options):
    return jax.grad(lambda r: clips.sapo(r, jnp.full_like(r, advantage), **options)[0].sum())(
        jnp.asarray(ratio))

  def test_worked(self):
    """d/d rho = 4 s (1 - s) A = A / cosh(tau (rho - 1) / 2)^2: A on policy, even around 1."""
    ratio = np.array([.2, 1., 1.8, 4.])
    for advantage, tau in ((2., 1.), (-3., 1.05)):
      np.testing.assert_allclose(
          self._grad(ratio, advantage), advantage / np.cosh(tau * (ratio - 1) / 2)**2, rtol=1e-4)
    value, clipped = clips.sapo(jnp.ones(2), jnp.array([1., -1]), tau_neg=2.)
    np.testing.assert_allclose(value, [2., -1])
    np.testing.assert_array_equal(clipped, 0)

  def test_far_ratios_are_silent(self):
    np.testing.assert_array_equal(self._grad([np.exp(20.)], 1.), 0.0)

  def test_ranges(self):
    for options in (dict(tau_pos=0.), dict(tau_neg=-1.)):
      with pytest.raises(ValueError, match='sapo'):
        clips.sapo(jnp.ones(1), jnp.ones(1), **options)
