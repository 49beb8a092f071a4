"""GDPO: the card's collapse example, invariances, gates, and its reduction to GRPO."""

import functools
import itertools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import rewards
from rlvr import selection
from rlvr import testing
from rlvr.advantages import per_reward

PLAIN = functools.partial(advantages.grpo, eps=0.)


def make(columns, **fields):
  """Groups of rows of columns; the outcome, column 0, is the reward."""
  flat = [row for group in columns for row in group]
  return testing.make_rollout(
      [[row[0] for row in group] for group in columns], columns=flat, **fields)


COLLAPSE = [[[0, 0], [0, 1]], [[0, 0], [1, 1]]]


class GdpoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make(COLLAPSE)
    summed = rollout.replace(reward=rewards.weighted_columns(rollout, weights=()))
    np.testing.assert_allclose(PLAIN(summed), [-1, 1, -1, 1], rtol=1e-6)  # GRPO cannot tell
    part = functools.partial(advantages.gdpo, base=PLAIN, batch_norm=False)
    np.testing.assert_allclose(self.variant(part)(rollout), [-1, 1, -2, 2], rtol=1e-6)
    part = functools.partial(advantages.gdpo, base=PLAIN)
    np.testing.assert_allclose(
        self.variant(part)(rollout), [-.63246, .63246, -1.26491, 1.26491], rtol=1e-5)

  def test_moments(self):
    rollout = make(
        [[[0, .3], [1, .1], [1, .9]], [[.5, .5], [0, .2]]], lengths=[3, 1, 4, 2, 5])
    result = advantages.gdpo(rollout)
    np.testing.assert_allclose((result.mean(), result.std()), (0, 1), atol=1e-5)
    np.testing.assert_allclose((result[:3].sum(), result[3:].sum()), 0, atol=1e-5)
    tokens = advantages.gdpo(rollout, level='token')
    values = np.asarray(tokens)[np.asarray(rollout.mask) != 0]
    np.testing.assert_allclose((values.mean(), values.std()), (0, 1), atol=1e-5)
    np.testing.assert_array_equal(tokens[0, :3], tokens[0, 0])

  def test_rescaling_one_reward_changes_nothing(self):
    rollout = make([[[0, .3], [1, .1], [1, .9]], [[.5, .5], [0, .2]]])
    moved = rollout.replace(columns=rollout.columns.at[:, 1].multiply(7.).at[:, 1].add(3.))
    np.testing.assert_allclose(
        advantages.gdpo(moved, base=PLAIN), advantages.gdpo(rollout, base=PLAIN), atol=2e-5)
    summed = lambda r: PLAIN(r.replace(reward=rewards.weighted_columns(r, weights=())))
    assert np.abs(summed(moved) - summed(rollout)).max() > .1

  def test_a_constant_reward_is_no_reward(self):
    rollout = make([[[0, .3], [1, .1]], [[1, .5], [0, .2]]])
    flat = rollout.replace(columns=rollout.columns.at[:, 1].set(.7))
    np.testing.assert_allclose(
        advantages.gdpo(flat), advantages.gdpo(flat, weights=(1.,)), rtol=1e-6)
    nothing = rollout.replace(columns=jnp.full_like(rollout.columns, .7))
    np.testing.assert_array_equal(advantages.gdpo(nothing), 0)

  def test_one_reward_is_proportional_to_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0], [0, 1], [1, 1]])
    grpo = advantages.grpo(rollout)
    result = advantages.gdpo(rollout)
    live = np.flatnonzero(grpo)
    ratio = np.asarray(result)[live] / np.asarray(grpo)[live]
    assert ratio[0] > 0
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    np.testing.assert_array_equal(advantages.gdpo(rollout, batch_norm=False), grpo)

  def test_number_of_distinct_advantages(self):
    """Of two binary rewards: G = 2: 2 and 3; G = 3: 4 and 6; G = 4: 7 and 14."""
    for size, num_grpo, num_gdpo in ((2, 2, 3), (3, 4, 6), (4, 7, 14)):
      outcomes = list(itertools.product([0, 1], repeat=2))
      rollout = make([list(g) for g in itertools.combinations_with_replacement(outcomes, size)])
      summed = rollout.replace(reward=rewards.weighted_columns(rollout, weights=()))
      apart = functools.partial(advantages.gdpo, base=PLAIN, batch_norm=False)
      for result, expected in ((PLAIN(summed), num_grpo), (apart(rollout), num_gdpo)):
        groups = np.sort(np.asarray(result).reshape(-1, size), axis=1)
        assert len(np.unique(np.round(groups, 4), axis=0)) == expected, (size, expected)

  def test_gates(self):
    columns = jnp.array([[1., .2], [0, .9]])
    np.testing.assert_allclose(
        per_reward.gated(columns, ((1, 0, 1.0),)), [[1, .2], [0, 0]], rtol=1e-6)
    rollout = make([[[1, .2], [0, .9]]])
    np.testing.assert_allclose(
        advantages.gdpo(rollout, gates=((1, 0, 1.),), base=PLAIN, batch_norm=False), [2, -2])

  def test_a_sparse_reward_is_bounded(self):
    rollout = make([[[0, 0]] * 7 + [[0, 1]]])
    np.testing.assert_allclose(
        advantages.per_column(rollout, base=PLAIN)[7], np.sqrt(7), rtol=1e-5)

  def test_a_column_that_does_not_apply_counts_as_zero(self):
    rollout = make([[[1, np.nan], [0, 1]]])
    filled = make([[[1, 0], [0, 1]]])
    np.testing.assert_array_equal(advantages.per_column(rollout), advantages.per_column(filled))

  def test_weights(self):
    rollout = make(COLLAPSE)
    second = advantages.per_column(rollout, base=PLAIN, weights=(0., 2.))
    np.testing.assert_allclose(second, [-2, 2, -2, 2], rtol=1e-6)

  def test_groups_of_equal_sums_are_live(self):
    """Sums are equal, parts are not: a filter must look at the advantage."""
    rollout = make([[[0, 1], [1, 0]], [[0, 0], [0, 0]]])
    result = advantages.per_column(rollout, weights=(1., 2.))
    np.testing.assert_array_equal(selection.live_groups(rollout, result), [1, 1, 0, 0])

  def test_refusals(self):
    rollout = make(COLLAPSE)
    for options, message in ((dict(weights=(1., 1., 1.)), '3 entries for the 2 columns'),
                             (dict(level='batch'), "level='batch'"),
                             (dict(gates=((2, 0, 1.),)), 'names a column'),
                             (dict(base=advantages.eapo), 'one advantage a response')):
      with pytest.raises(ValueError, match=message):
        advantages.gdpo(rollout, **options)
