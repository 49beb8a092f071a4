"""V0.5's baseline: worked values, that its weight is the best one, and its limits."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing
from rlvr.advantages import fused


def make(rewards, prior, **fields):
  rollout = testing.make_rollout(rewards, **fields)
  return rollout.replace(extras={'prior': jnp.asarray(prior)[rollout.group]})


class FusedBaselineTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    mean, prior = jnp.array([1., 0, -1]), jnp.array([0., .2, .8])
    result = self.variant(fused.fused_baseline)(mean, prior, jnp.full(3, 4), jnp.ones(3))
    np.testing.assert_allclose(result, [.75, .2, -.86111], rtol=1e-5)

  def test_random_inputs(self):
    rng = np.random.default_rng(0)
    mean, prior = rng.uniform(-1, 1, (2, 500))
    num = rng.integers(1, 17, 500)
    result = np.asarray(fused.fused_baseline(mean, prior, num, jnp.ones(500)))
    low, high = np.minimum(mean, prior), np.maximum(mean, prior)
    assert (result >= low - 1e-6).all() and (result <= high + 1e-6).all()
    weight = np.minimum(1, 1 / (num * (mean - prior) ** 2))  # of the prior
    np.testing.assert_allclose(result, mean + weight * (prior - mean), atol=1e-5)
    # The plug-in error w^2 / n + (1 - w)^2 D is smallest there.
    bias = np.maximum(0, (mean - prior) ** 2 - 1 / num)
    error = lambda w: w ** 2 / num + (1 - w) ** 2 * bias
    for other in np.linspace(0, 1, 21):
      assert (error(1 - weight) <= error(other) + 1e-9).all()

  def test_limits(self):
    one = jnp.ones(1)
    np.testing.assert_allclose(fused.fused_baseline(one, -one, 0 * one, one), -1)
    np.testing.assert_allclose(fused.fused_baseline(one, 0 * one, 1e9 * one, one), 1, rtol=1e-6)
    np.testing.assert_allclose(fused.fused_baseline(one, one, 4 * one, one), 1)


class V05Test(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make([[1] * 4, [1, -1, 1, -1], [-1] * 4], [0., .2, .8])
    result = self.variant(advantages.v0_5)(rollout)
    np.testing.assert_allclose(
        result, [.25] * 4 + [.8, -1.2, .8, -1.2] + [-1 + .86111] * 4, rtol=1e-4)

  def test_a_range_is_mapped_and_kept(self):
    plain = make([[1, -1, 1, 1]], [.4])
    half = make([[1, 0, 1, 5]], [.7])
    np.testing.assert_allclose(
        advantages.v0_5(half, low=0.), advantages.v0_5(plain), rtol=1e-5)

  def test_reductions(self):
    """A prior far off is dropped: r - mean. One that agrees within the noise: r - V."""
    sure = make([[1, 1, 1, 1] * 64 + [-1] * 64], [-1.])
    np.testing.assert_allclose(
        advantages.v0_5(sure), advantages.dr_grpo(sure), atol=.01)
    agrees = make([[1, -1, 1, 1]], [.4])
    np.testing.assert_allclose(advantages.v0_5(agrees), agrees.reward - .4, rtol=1e-5)

  def test_one_response_is_enough(self):
    rollout = make([[1], [-1]], [.5, .5])
    np.testing.assert_allclose(advantages.v0_5(rollout), [.5, -2 / 3], rtol=1e-5)

  def test_the_null_variance(self):
    """1 - V^2 = .19 at V = .9: noise .19/4, (m - V)^2 = .81, w = 1 - .0475/.81."""
    rollout = make([[1, -1, 1, -1]], [.9])
    baseline = .9 * .0475 / .81
    np.testing.assert_allclose(
        advantages.v0_5(rollout, variance='null'), rollout.reward - baseline, rtol=1e-4)

  def test_rows_of_one_dataset_id_are_pooled(self):
    twice = make([[1, 1], [-1, -1]], [.1, .1])
    twice = twice.replace(prompts=twice.prompts.replace(id=jnp.array([7, 7])))
    once = make([[1, 1, -1, -1]], [.1])
    np.testing.assert_array_equal(advantages.v0_5(twice), advantages.v0_5(once))

  def test_refusals(self):
    rollout = testing.make_rollout([[1, 0]])
    for options, message in ((dict(low=1.), 'low=1'), (dict(variance='no'), "variance='no'"),
                             (dict(), "extras\\['prior'\\]")):
      with pytest.raises(ValueError, match=message):
        advantages.v0_5(rollout, **options)
