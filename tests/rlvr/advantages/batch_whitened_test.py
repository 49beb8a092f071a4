"""REINFORCE++: worked returns, whitening, and what an all-equal group gets."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import groups
from rlvr import testing


def moments(result, mask):
  values = np.asarray(result)[np.asarray(mask) != 0]
  return values.mean(), values.var()


class ReinforcePpTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    """Lengths 2 and 1, r = 1, 0: returns 1, 1, 0."""
    rollout = testing.make_rollout([[1, 0]], lengths=[2, 1])
    result = self.variant(functools.partial(advantages.reinforce_pp, coef=0.))(rollout)
    np.testing.assert_allclose(result, [[.70710677, .70710677], [-1.4142135, 0]], rtol=1e-5)

  def test_kl_and_discount(self):
    """beta .1, old -1, ref (-1, -2) and (-3): returns .9, .9 | -.2; gamma .5: .45, .9."""
    rollout = testing.make_rollout(
        [[1, 0]], lengths=[2, 1], old_logp=jnp.full((2, 2), -1.),
        ref_logp=jnp.array([[-1., -2], [-3, jnp.nan]]))
    for discount, returns in ((1., [.9, .9, -.2]), (.5, [.45, .9, -.2])):
      expected = groups.whiten(jnp.array(returns), jnp.ones(3))
      result = advantages.reinforce_pp(rollout, coef=.1, discount=discount)
      np.testing.assert_allclose(
          [result[0, 0], result[0, 1], result[1, 0]], expected, rtol=1e-5)

  def test_environment_tokens_are_stepped_over(self):
    with_tool = testing.make_rollout([[1, 0]], masks=[[1, 0, 0, 1], [1]])
    without = testing.make_rollout([[1, 0]], lengths=[2, 1])
    part = functools.partial(advantages.reinforce_pp, coef=0., discount=.5)
    np.testing.assert_allclose(part(with_tool)[0, jnp.array([0, 3])], part(without)[0], rtol=1e-6)
    np.testing.assert_array_equal(part(with_tool)[0, 1:3], 0)

  def test_mean_variance_and_affine_rewards(self):
    rollout = testing.make_rollout([[.3, 1.7, -.2], [1, 0]], lengths=[3, 1, 4, 2, 5])
    part = functools.partial(advantages.reinforce_pp, coef=0.)
    mean, variance = moments(part(rollout), rollout.mask)
    np.testing.assert_allclose((mean, variance), (0, 1), atol=1e-5)
    moved = rollout.replace(reward=3 * rollout.reward + 2)
    np.testing.assert_allclose(part(moved), part(rollout), rtol=1e-4, atol=1e-5)

  def test_no_spread_is_exactly_zero(self):
    rollout = testing.make_rollout([[.7] * 7, [.7] * 3], lengths=[1, 2, 3, 4, 5] * 2)
    for part in (functools.partial(advantages.reinforce_pp, coef=0.),
                 advantages.reinforce_pp_baseline):
      np.testing.assert_array_equal(jax.jit(part)(rollout), 0)

  def test_one_response_a_prompt_is_enough(self):
    rollout = testing.make_rollout([[1], [0], [0]])
    assert (np.asarray(advantages.reinforce_pp(rollout, coef=0.)) != 0).all()
    np.testing.assert_array_equal(advantages.reinforce_pp_baseline(rollout), 0)

  def test_refusals(self):
    rollout = testing.make_rollout([[1, 0]])
    with pytest.raises(ValueError, match='score_first'):
      advantages.reinforce_pp(rollout.replace(ref_logp=None))
    advantages.reinforce_pp(rollout.replace(ref_logp=None, old_logp=None), coef=0.)
    with pytest.raises(ValueError, match='coef=-1'):
      advantages.reinforce_pp(rollout, coef=-1.)
    with pytest.raises(ValueError, match='discount=2'):
      advantages.reinforce_pp(rollout, discount=2.)


class ReinforcePpBaselineTest(chex.TestCase):

  @chex.all_variants
  def test_equal_lengths_and_spreads_are_grpo(self):
    rollout = testing.make_rollout([[1, 0], [0, 1]])
    result = self.variant(advantages.reinforce_pp_baseline)(rollout)
    np.testing.assert_allclose(result[:, 0], advantages.grpo(rollout, eps=0.), rtol=1e-5)
    np.testing.assert_allclose(result[:, 0], [1, -1, -1, 1], rtol=1e-5)

  def test_an_all_equal_group_is_small_and_not_silent(self):
    """It enters as 0 and leaves as -mean/std over tokens: here (3 - 1) / 2 / 8 tokens."""
    rollout = testing.make_rollout([[1, 0], [1, 1]], lengths=[3, 1, 2, 2])
    result = advantages.reinforce_pp_baseline(rollout)
    mean = (3 * .5 - .5) / 8
    std = np.sqrt(4 * .25 / 8 - mean ** 2)
    np.testing.assert_allclose(result[2, :2], -mean / std, rtol=1e-5)
    np.testing.assert_allclose(moments(result, rollout.mask), (0, 1), atol=1e-5)
