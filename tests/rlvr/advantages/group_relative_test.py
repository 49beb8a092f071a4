"""GRPO, Dr. GRPO and RLOO: worked values, faults, and RLOO's unbiasedness by enumeration."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import rows as rows_lib
from rlvr import testing

BASELINES = ('grpo', 'dr_grpo', 'rloo')


class WorkedTest(chex.TestCase):

  @chex.all_variants
  def test_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0, 1], [1, 1, 1, 1]])
    result = self.variant(advantages.grpo)(rollout)
    np.testing.assert_allclose(result[:4], [.999998, -.999998, -.999998, .999998], rtol=1e-6)
    np.testing.assert_array_equal(result[4:], 0)

  def test_grpo_ddof(self):
    rollout = testing.make_rollout([[1, 0, 0, 1]])
    population = advantages.grpo(rollout, eps=0.)
    sample = advantages.grpo(rollout, eps=0., ddof=1)
    np.testing.assert_allclose(sample, population * np.sqrt(3 / 4), rtol=1e-6)

  def test_dr_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0, 0]])
    np.testing.assert_array_equal(advantages.dr_grpo(rollout), [.75, -.25, -.25, -.25])

  def test_rloo(self):
    rollout = testing.make_rollout([[1, 0, 0, 1], [2, 2, 2, 2]])
    np.testing.assert_allclose(advantages.rloo(rollout)[:4], [2/3, -2/3, -2/3, 2/3], rtol=1e-6)
    np.testing.assert_array_equal(advantages.rloo(rollout)[4:], 0)

  def test_rloo_is_dr_grpo_times_g_over_g_less_one(self):
    rollout = testing.make_rollout([[.3, 1.7, -.2, .9], [1, 0, 0, 1]])
    np.testing.assert_allclose(
        advantages.dr_grpo(rollout), 3 / 4 * advantages.rloo(rollout), rtol=1e-6)

  def test_weight_of_a_prompt_relative_to_dr_grpo(self):
    """Binary rewards at G = 8: 1 / std_p, 3.024 at one or seven right and 2 at four."""
    for num_right, expected in ((1, 3.024), (7, 3.024), (4, 2.0)):
      rollout = testing.make_rollout([[1] * num_right + [0] * (8 - num_right)])
      ratio = advantages.grpo(rollout, eps=0.) / advantages.dr_grpo(rollout)
      np.testing.assert_allclose(ratio, expected, rtol=1e-3)

  def test_shift_and_scale(self):
    rollout = testing.make_rollout([[1, 0, 0, 1, .5]])
    moved = rollout.replace(reward=2 * rollout.reward + 3)
    for part, scale in ((lambda r: advantages.grpo(r, eps=0.), 1), (advantages.dr_grpo, 2),
                        (advantages.rloo, 2)):
      np.testing.assert_allclose(part(moved), scale * part(rollout), rtol=1e-5, atol=1e-6)
      np.testing.assert_allclose(jnp.sum(part(rollout)), 0, atol=1e-6)


class FaultsTest(chex.TestCase):

  def test_fault_10_seven_equal_rewards(self):
    """fault 10: seven times .9 and seven times .7 give exactly 0."""
    rollout = testing.make_rollout([[.9] * 7, [.7] * 7])
    for name in BASELINES:
      np.testing.assert_array_equal(jax.jit(advantages.ADVANTAGES[name])(rollout), 0)

  def test_fault_11_uneven_groups(self):
    """fault 11: sizes 4, 3, 4; the three all 5.0 give exactly 0."""
    rollout = testing.make_rollout([[1, 0, 1, 0], [5, 5, 5], [0, 0, 0, 1]])
    for name in BASELINES:
      result = advantages.ADVANTAGES[name](rollout)
      np.testing.assert_array_equal(result[4:7], 0)
      assert (result[:4] != 0).all() and (result[7:] != 0).all()

  def test_fault_13_interleaved_groups(self):
    """fault 13: a b a b = 1 0 1 0 gives zeros, where a block reshape gives +-1."""
    rollout = testing.make_rollout([[1, 0, 1, 0]]).replace(group=jnp.array([0, 1, 0, 1]))
    for name in BASELINES:
      np.testing.assert_array_equal(advantages.ADVANTAGES[name](rollout), 0)

  def test_fault_13_splitting_changes_no_advantage(self):
    """fault 13: a group's advantages do not depend on what shares the batch."""
    rollout = testing.make_rollout([[1, 0, 0], [0, 1], [3, 1, 2]])
    whole = advantages.grpo(rollout)
    for index in range(3):
      rows = np.flatnonzero(np.asarray(rollout.group) == index)
      part = rows_lib.regroup(rows_lib.take_rows(rollout, rows))
      np.testing.assert_allclose(advantages.grpo(part), whole[rows], rtol=1e-6)

  def test_fault_14_one_graded_row(self):
    """fault 14: [1, NaN x 7] gives eight zeros."""
    rollout = testing.make_rollout([[1] + [float('nan')] * 7])
    for name in BASELINES:
      np.testing.assert_array_equal(advantages.ADVANTAGES[name](rollout), 0)

  def test_fault_14_graded_members_use_each_other_only(self):
    """fault 14: ungraded rows leave the statistics of their group."""
    rollout = testing.make_rollout([[1, None, 0, None, 0]])
    expected = testing.make_rollout([[1, 0, 0]])
    graded = jnp.array([0, 2, 4])
    for name in BASELINES:
      part = advantages.ADVANTAGES[name]
      np.testing.assert_allclose(part(rollout)[graded], part(expected), rtol=1e-6)

  def test_no_rewards_yet(self):
    with pytest.raises(ValueError, match='after the reward stage'):
      advantages.grpo(testing.make_rollout([[1]]).replace(reward=None))


class BanditTest(chex.TestCase):
  """mean_g A_g grad log pi on a two-armed softmax bandit, over all groups of actions."""

  def _moments(self, part, p, rewards, size):
    """Exact mean of the estimate of logit 0, and its variance summed over both logits."""
    actions = list(itertools.product([0, 1], repeat=size))
    rollout = testing.make_rollout([[rewards[a] for a in group] for group in actions])
    adv = np.asarray(part(rollout), np.float64).reshape(-1, size)
    actions = np.array(actions)
    score = (actions == 0) - p
    probability = np.prod(np.where(actions == 0, p, 1 - p), axis=1)
    estimate = np.mean(adv * score, axis=1)
    mean = np.sum(probability * estimate)
    # The two logits' gradients are opposite, so both have the same variance.
    return mean, 2 * np.sum(probability * np.square(estimate - mean))

  def test_leave_one_out_is_unbiased_and_the_own_mean_is_not(self):
    for p, rewards in ((.3, (1., 0.)), (.8, (2., -1.)), (.5, (1., 2.))):
      truth = p * (1 - p) * (rewards[0] - rewards[1])
      for size in (2, 3):
        mean, _ = self._moments(advantages.rloo, p, rewards, size)
        np.testing.assert_allclose(mean, truth, rtol=1e-5)
        mean, _ = self._moments(advantages.dr_grpo, p, rewards, size)
        np.testing.assert_allclose(mean, truth * (size - 1) / size, rtol=1e-5)

  def test_variance_helps_away_from_zero_and_not_always(self):
    """The card's exact variances: .021 against .281, and .037 against .003."""
    for p, rewards, with_baseline, without in (
        (.5, (1., 2.), .021, .281), (.8, (1., 0.), .037, .003)):
      for part, expected in ((advantages.rloo, with_baseline), (advantages.reinforce, without)):
        _, variance = self._moments(part, p, rewards, 4)
        np.testing.assert_allclose(variance, expected, atol=6e-4)

  def test_at_two_members_the_baseline_is_above_none_at_every_p(self):
    for p in (.1, .3, .5, .7, .9):
      _, with_baseline = self._moments(advantages.rloo, p, (1., 0.), 2)
      _, without = self._moments(advantages.reinforce, p, (1., 0.), 2)
      assert with_baseline > without
