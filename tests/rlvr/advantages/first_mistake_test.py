"""Cliff: the card's worked values and what must hold of any group."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing


def make(rewards, places, *, lengths=None, **extras):
  """A rollout whose rows have their first error at `places` (-1 for none)."""
  rollout = testing.make_rollout(rewards, lengths=lengths)
  fill = lambda x: jnp.pad(jnp.asarray(x), (0, rollout.where.shape[0] - len(x)))
  extras = {name: fill(x) for name, x in ({'first_error': places} | extras).items()}
  return rollout.replace(extras=extras)


class WorkedTest(chex.TestCase):

  @chex.all_variants
  def test_the_prefix_is_spared(self):
    rollout = make([[1, 0]], [-1, 2], lengths=[4, 4])
    np.testing.assert_allclose(
        self.variant(advantages.cliff)(rollout), [[.75] * 4, [-.25, -.25, -1.25, -1.25]],
        rtol=1e-6)

  def test_the_prefix_is_paid(self):
    rollout = make([[1, 0]], [-1, 2], lengths=[4, 4])
    np.testing.assert_allclose(
        advantages.cliff(rollout, prefix_weight=1.0), [[.5] * 4, [.5, .5, -1.5, -1.5]], rtol=1e-6)

  def test_an_untrusted_judge_leaves_plain_grpo(self):
    rollout = make([[1, 0, 0, 0]], [-1, 1, 0, 2], lengths=[3] * 4, trusted=[False] * 4)
    expected = np.array([[1.73205], [-.57735], [-.57735], [-.57735]]) * np.ones((1, 3))
    np.testing.assert_allclose(advantages.cliff(rollout), expected, rtol=1e-5)
    # With equal lengths the same as a mistake at the start of all.
    at_once = make([[1, 0, 0, 0]], [-1, 0, 0, 0], lengths=[3] * 4)
    np.testing.assert_allclose(advantages.cliff(at_once), expected, rtol=1e-5)

  def test_trust_is_a_groups_own(self):
    rewards, lengths = [[1, 0], [1, 0]], [1, 3, 1, 3]
    both = make(rewards, [-1, 1, -1, 1], lengths=lengths, trusted=[True, True, False, False])
    trusted = make(rewards, [-1, 1, -1, 1], lengths=lengths)
    result = advantages.cliff(both)
    np.testing.assert_allclose(result[:2], advantages.cliff(trusted)[:2], rtol=1e-6)
    np.testing.assert_allclose(result[2:], [[1, 0, 0], [-1, -1, -1]], rtol=1e-6)


class PropertiesTest(chex.TestCase):

  def _random(self, seed):
    rng = np.random.default_rng(seed)
    rewards = [[float(x) for x in rng.integers(0, 2, 5)] for _ in range(6)]
    lengths = rng.integers(0, 7, 30)
    places = [int(rng.integers(-1, 9)) for _ in lengths]
    return make(rewards, places, lengths=[int(n) for n in lengths])

  def test_a_groups_tokens_sum_to_zero(self):
    for seed in range(5):
      for weight in (0.0, .3, 1.0):
        rollout = self._random(seed)
        result = np.asarray(advantages.cliff(rollout, prefix_weight=weight))
        total = np.bincount(np.asarray(rollout.group), result.sum(axis=1))
        np.testing.assert_allclose(total, 0, atol=1e-4)
        np.testing.assert_array_equal(result[np.asarray(rollout.mask) == 0], 0)

  def test_one_drop_at_the_mistake_and_one_value_for_right_answers(self):
    for seed in range(5):
      for weight in (0.0, .5, 1.0):
        rollout = self._random(seed)
        result = np.asarray(advantages.cliff(rollout, prefix_weight=weight))
        right, length = np.asarray(rollout.reward) >= 1, np.asarray(rollout.mask).sum(1).astype(int)
        for group in range(6):
          rows = np.flatnonzero(np.asarray(rollout.group) == group)
          mean = right[rows].mean()
          if mean in (0, 1):
            np.testing.assert_array_equal(result[rows], 0)
            continue
          sigma = np.sqrt(mean * (1 - mean))
          top = {round(float(x), 5) for r in rows if right[r] for x in result[r, :length[r]]}
          assert len(top) <= 1
          for row in rows[~right[rows]]:
            place, values = int(rollout.extras['first_error'][row]), result[row, :length[row]]
            place = place if 0 <= place < length[row] else 0
            for part in (values[:place], values[place:]):
              np.testing.assert_allclose(part, part[:1].repeat(len(part)), atol=1e-6)
            if 0 < place:
              drop = (-mean - weight * (1 - mean)) / sigma
              np.testing.assert_allclose(values[place] - values[place - 1], drop, rtol=1e-4)
              assert not top or values[0] <= max(top) + 1e-4

  def test_a_place_outside_the_response_blames_all_of_it(self):
    results = [advantages.cliff(make([[1, 0]], [-1, place], lengths=[2, 3]))
               for place in (0, -1, 3, 99)]
    for result in results[1:]:
      np.testing.assert_array_equal(result, results[0])

  def test_the_verifier_is_believed_about_a_right_answer(self):
    found, none = (advantages.cliff(make([[1, 0]], [place, 1], lengths=[3, 3]))
                   for place in (1, -1))
    np.testing.assert_array_equal(found, none)

  def test_an_empty_response_counts_in_the_share(self):
    result = advantages.cliff(make([[1, 0, 0]], [-1, 1, -1], lengths=[2, 2, 0]))
    mean = 1 / 3
    right, wrong = (1 - mean) / np.sqrt(mean * (1 - mean)), -mean / np.sqrt(mean * (1 - mean))
    offset = (2 * right + wrong) / 4
    np.testing.assert_allclose(
        result, [[right - offset] * 2, [-offset, wrong - offset], [0, 0]], rtol=1e-5)

  def test_outcomes_are_thresholded_and_the_shaped_reward_is_not_read(self):
    rollout = make([[.7, .2]], [-1, 1], lengths=[2, 2])
    np.testing.assert_array_equal(advantages.cliff(rollout), 0)
    shaped = rollout.replace(reward=jnp.array([5., 9.]))
    result = advantages.cliff(shaped, correct_at=.5)
    np.testing.assert_allclose(result, [[.75, .75], [-.25, -1.25]], rtol=1e-6)

  def test_faults_say_what_is_missing(self):
    with pytest.raises(ValueError, match="cliff reads rollout.extras\\['first_error'\\]"):
      advantages.cliff(testing.make_rollout([[1, 0]]))
    for weight in (-.1, 1.1):
      with pytest.raises(ValueError, match=f'cliff: prefix_weight={weight}'):
        advantages.cliff(make([[1, 0]], [0, 0]), prefix_weight=weight)
