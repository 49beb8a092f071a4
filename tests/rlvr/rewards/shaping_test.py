"""Rewards: worked values of DAPO's penalty and of RLOO's KL term."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import rewards
from rlvr import testing


def test_overlong_ramp():
  lengths = jnp.array([100, 16384, 18432, 20480, 20481])
  ramp = rewards.overlong_ramp(lengths, max_tokens=20480, cache_tokens=4096)
  np.testing.assert_allclose(ramp, [0, 0, -.5, -1, -1])
  every = rewards.overlong_ramp(jnp.arange(0, 50), max_tokens=30, cache_tokens=20, factor=2.)
  assert (np.diff(every) <= 0).all() and every.min() == -2
  step = rewards.overlong_ramp(jnp.array([9, 10, 11]), max_tokens=10, cache_tokens=0)
  np.testing.assert_array_equal(step, [0, 0, -1])


def test_overlong_penalty_is_added_to_the_outcome():
  rollout = testing.make_rollout([[1, 1, None, -1]], lengths=[2, 4, 4, 3], padding=1)
  reward = rewards.overlong_penalty(rollout, max_tokens=4, cache_tokens=2)
  np.testing.assert_allclose(reward, [1, 0, 0, -1.5, 0])


def test_terms_nest():
  rollout = testing.make_rollout([[1, 0]], lengths=[4, 1])
  base = functools.partial(rewards.kl_in_reward, coef=.1)
  both = rewards.overlong_penalty(rollout, base=base, max_tokens=4, cache_tokens=2)
  np.testing.assert_allclose(both, base(rollout) + jnp.array([-1., 0]), rtol=1e-6)


def test_kl_in_reward():
  """Sampling probabilities (.5, .25), reference (.25, .25), beta .1: r - .1 ln 2."""
  old, ref = jnp.log(jnp.array([[.5, .25]])), jnp.log(jnp.array([[.25, .25]]))
  rollout = testing.make_rollout([[1.]], lengths=[2], old_logp=old, ref_logp=ref)
  np.testing.assert_allclose(
      rewards.kl_in_reward(rollout, coef=.1), [1 - .1 * np.log(2)], rtol=1e-6)
  bare = rollout.replace(old_logp=None)
  np.testing.assert_array_equal(rewards.kl_in_reward(bare, coef=0.), [1])
  with pytest.raises(ValueError, match='score_first'):
    rewards.kl_in_reward(bare)


def test_kl_separates_an_all_equal_group():
  rollout = testing.make_rollout([[1., 1.]])
  reward = rewards.kl_in_reward(rollout)
  assert reward[0] != reward[1]


def test_fault_14_ungraded_rewards_are_zero_whatever_they_hold():
  """fault 14: a NaN in a column of an ungraded row never leaves the reward stage."""
  rollout = testing.make_rollout([[1] + [None] * 7])
  np.testing.assert_array_equal(rewards.outcome(rollout), [1] + [0] * 7)


def test_fault_22_reward_on_the_last_kept_token():
  """fault 22: mask [1,1,0,0], r = 1 gives [0,1,0,0]."""
  mask = jnp.array([[1., 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
  np.testing.assert_array_equal(
      rewards.at_last_token(jnp.array([1., 2, 3]), mask),
      [[0, 1, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0]])


@pytest.mark.parametrize('options', [
    dict(max_tokens=4, cache_tokens=5), dict(cache_tokens=-1), dict(factor=-1.)])
def test_ranges(options):
  with pytest.raises(ValueError, match='overlong_penalty'):
    rewards.overlong_penalty(testing.make_rollout([[1]]), **options)
