"""Batch std, OPO, MaxRL and pass@k: worked values, reductions, and what they estimate."""

import functools
import itertools
import math

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing


class GrpoBatchStdTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    """Rewards 1 0 | 1 1 | 3 1: mean 7/6, variance 29/36."""
    rollout = testing.make_rollout([[1, 0], [1, 1], [3, 1]])
    result = self.variant(functools.partial(advantages.grpo_batch_std, eps=0.))(rollout)
    np.testing.assert_allclose(
        result, np.array([.5, -.5, 0, 0, 1, -1]) / np.sqrt(29 / 36), rtol=1e-6)

  def test_one_group_is_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0, 2]])
    np.testing.assert_allclose(
        advantages.grpo_batch_std(rollout), advantages.grpo(rollout), rtol=1e-6)


class OpoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    """Lengths 1, 3 and rewards 1, 0: b = 1/4."""
    rollout = testing.make_rollout([[1, 0]], lengths=[1, 3])
    np.testing.assert_allclose(self.variant(advantages.opo)(rollout), [.75, -.25], rtol=1e-6)

  def test_equal_lengths_are_dr_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0, .5], [2, 1]])
    np.testing.assert_allclose(
        advantages.opo(rollout), advantages.dr_grpo(rollout), rtol=1e-6, atol=1e-7)

  def test_an_all_equal_group_of_unequal_lengths_is_exactly_zero(self):
    rollout = testing.make_rollout([[.7, .7, .7]], lengths=[1, 7, 3])
    np.testing.assert_array_equal(advantages.opo(rollout), 0)

  def test_only_policy_tokens_count(self):
    rollout = testing.make_rollout([[1, 0]], masks=[[1, 0, 0], [1, 1, 1]])
    np.testing.assert_allclose(advantages.opo(rollout), [.75, -.25], rtol=1e-6)


class MaxrlTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = testing.make_rollout([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(
        self.variant(advantages.maxrl)(rollout), [3, -1, -1, -1] + [0] * 8, rtol=1e-6)

  def test_expected_update_by_enumeration(self):
    """(1 - (1 - p)^(n - 1)) / p times grad p, on a two-armed bandit."""
    for p, size in ((.2, 3), (.5, 4), (.9, 2)):
      outcomes = list(itertools.product([1, 0], repeat=size))
      adv = np.asarray(advantages.maxrl(testing.make_rollout(outcomes)), np.float64)
      outcomes = np.array(outcomes)
      probability = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
      estimate = np.mean(adv.reshape(outcomes.shape) * (outcomes - p), axis=1)
      expected = (1 - (1 - p) ** (size - 1)) / p * p * (1 - p)
      np.testing.assert_allclose(np.sum(probability * estimate), expected, rtol=1e-5)


class PassAtKGrpoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    """n = 4, one right, k = 2: miss = 3/6; A = 1 and (1/2 - 2/3) / (1/2) = -1/3."""
    rollout = testing.make_rollout([[1, 0, 0, 0]])
    part = functools.partial(advantages.pass_at_k_grpo, k=2)
    np.testing.assert_allclose(self.variant(part)(rollout), [1, -1/3, -1/3, -1/3], rtol=1e-6)

  def test_k_of_one_is_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0, 0], [1, 1, 0], [1, 1]])
    np.testing.assert_allclose(
        advantages.pass_at_k_grpo(rollout, k=1), advantages.grpo(rollout, eps=0.), rtol=1e-5)

  def test_agrees_with_all_subsets(self):
    """The mean over the subsets that hold a response of their normalised reward."""
    outcomes = [1, 0, 0, 1, 0, 0]
    for k in (2, 3, 4):
      subsets = list(itertools.combinations(range(6), k))
      best = np.array([max(outcomes[i] for i in s) for s in subsets], float)
      mean, std = best.mean(), best.std()
      expected = [np.mean([(b - mean) / std for s, b in zip(subsets, best, strict=True) if i in s])
                  for i in range(6)]
      result = advantages.pass_at_k_grpo(testing.make_rollout([outcomes]), k=k)
      np.testing.assert_allclose(result, expected, rtol=1e-5)
      np.testing.assert_allclose(np.sum(result), 0, atol=1e-5)

  def test_no_signal_where_every_subset_succeeds_or_none(self):
    assert math.comb(2, 3) == 0  # two wrong ones fill no subset of three
    rollout = testing.make_rollout([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0]])
    np.testing.assert_array_equal(advantages.pass_at_k_grpo(rollout, k=3), 0)

  def test_the_outcome_decides_and_not_the_shaped_reward(self):
    rollout = testing.make_rollout([[1, 0, 0]])
    shaped = rollout.replace(reward=jnp.array([-1., 5, 5]))
    np.testing.assert_array_equal(
        advantages.pass_at_k_grpo(shaped, k=2), advantages.pass_at_k_grpo(rollout, k=2))

  def test_range(self):
    with pytest.raises(ValueError, match='k=0'):
      advantages.pass_at_k_grpo(testing.make_rollout([[1]]), k=0)
