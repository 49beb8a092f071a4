"""FAPO: the card's worked values, and the sign that turns by itself."""

import itertools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import rewards
from rlvr import testing


def make(right, flawed):
  """One group; a flawed response has its first error at position 1."""
  rollout = testing.make_rollout([[float(r) for r in right]])
  return rollout.replace(extras={'first_error': jnp.where(jnp.array(flawed, bool), 1, -1)})


def advantage(right, flawed, **options):
  rollout = make(right, flawed)
  return np.asarray(advantages.grpo(
      rollout.replace(reward=rewards.fapo(rollout, **options)), eps=0.0))


class FapoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make([1, 1, 0, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(self.variant(rewards.fapo)(rollout), [1, 0, -1, -1])
    np.testing.assert_allclose(
        advantage([1, 1, 0, 0], [0, 1, 0, 1]), [1.50756, .30151, -.90453, -.90453], rtol=1e-5)

  def test_all_right_and_some_flawed(self):
    np.testing.assert_allclose(advantage([1] * 4, [1, 1, 0, 0]), [-1, -1, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(advantage([1] * 4, [0] * 4), 0)

  def test_the_sign_is_that_of_the_threshold_whatever_the_number_of_flawed_ones(self):
    for penalty in (.25, .5, 1.0, 1.5):
      for clean, wrong, flawed in itertools.product((0, 1, 2, 3, 7), (1, 2, 4, 5), (1, 2, 6)):
        result = advantage([1] * (clean + flawed) + [0] * wrong,
                           [0] * clean + [1] * flawed + [0] * wrong, penalty=penalty)[clean]
        margin = 2 / penalty - 1 - clean / wrong
        if margin == 0:
          np.testing.assert_allclose(result, 0, atol=1e-6)
        else:
          assert np.sign(result) == np.sign(margin), (penalty, clean, wrong, flawed)

  def test_without_a_flaw_or_a_penalty_it_is_grpo_on_plus_and_minus_one(self):
    for flawed, options in (([0, 0, 0, 0], {}), ([1, 0, 1, 0], {'penalty': 0.0})):
      plain = testing.make_rollout([[1., 1, -1, -1]])
      np.testing.assert_allclose(
          advantage([1, 1, 0, 0], flawed, **options), advantages.grpo(plain, eps=0.0), rtol=1e-6)

  def test_at_two_a_flawed_answer_is_worth_a_wrong_one(self):
    np.testing.assert_array_equal(
        rewards.fapo(make([1, 1, 0], [1, 0, 0]), penalty=2.0), [-1, 1, -1])

  def test_ungraded_rows_are_zero(self):
    rollout = testing.make_rollout([[1., None, 0.]], padding=1)
    rollout = rollout.replace(extras={'first_error': jnp.zeros(4, jnp.int32)})
    np.testing.assert_array_equal(rewards.fapo(rollout), [0, 0, -1, 0])

  def test_faults_say_what_is_missing(self):
    with pytest.raises(ValueError, match="fapo reads rollout.extras\\['first_error'\\]"):
      rewards.fapo(testing.make_rollout([[1, 0]]))
    for penalty in (-.1, 2.1):
      with pytest.raises(ValueError, match=f'fapo: penalty={penalty}'):
        rewards.fapo(make([1, 0], [0, 0]), penalty=penalty)
