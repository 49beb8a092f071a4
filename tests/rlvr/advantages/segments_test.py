"""Factorised rewards: routing by segment, its special cases, and the mean over segments."""

import functools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import rewards
from rlvr import testing
from rlvr.advantages import segments

PLAIN = functools.partial(advantages.grpo, eps=0.)
SEGMENT = jnp.array([[0, 1, 1], [0, 0, 1]])
PART = functools.partial(advantages.factorized_reward, base=PLAIN)


def make(columns=((1, 0), (0, 1)), masks=((1, 1, 0), (1, 1, 1)), segment=SEGMENT):
  return testing.make_rollout(
      [[row[0] for row in columns]], columns=columns, masks=masks, segment=segment)


class FactorizedRewardTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make()
    np.testing.assert_allclose(
        self.variant(PART)(rollout), [[1, -1, 0], [-1, -1, 1]], rtol=1e-6)
    joint = rollout.replace(reward=rewards.weighted_columns(rollout, weights=()))
    np.testing.assert_array_equal(advantages.grpo(joint), 0)

  def test_a_reward_moves_only_its_own_segments(self):
    columns = [[1, .2], [0, .9], [.5, .1]]
    masks, segment = [[1, 1]] * 3, jnp.array([[0, 1]] * 3)
    before = PART(make(columns, masks, segment))
    for changed, other in ((1, 0), (0, 1)):
      moved = np.array(columns)
      moved[:, changed] = [.3, .1, .8]
      after = PART(make(moved.tolist(), masks, segment))
      np.testing.assert_array_equal(after[:, other], before[:, other])
      assert (np.abs(after[:, changed] - before[:, changed]) > .1).any()

  def test_rescaling_a_reward_changes_nothing(self):
    rollout = make([[1, .2], [0, .9]])
    moved = rollout.replace(columns=rollout.columns * jnp.array([[4., 2]]) + 3)
    np.testing.assert_allclose(PART(moved), PART(rollout), atol=1e-5)

  def test_routes(self):
    rollout = make([[1, .2], [0, .9], [0, .3]], [[1, 1]] * 3, jnp.array([[0, 1]] * 3))
    both = advantages.per_column(rollout, base=PLAIN)
    ones = PART(rollout, route=((1., 1.), (1., 1.)))
    np.testing.assert_allclose(ones, jnp.stack([both, both], axis=1), rtol=1e-5, atol=1e-6)
    shared = PART(rollout, route=((1.,), (1.,)))
    np.testing.assert_allclose(
        shared, jnp.stack([PLAIN(rollout)] * 2, axis=1), rtol=1e-6)
    first, second = per_type = PART(rollout)[:, 0], PART(rollout)[:, 1]
    coupled = PART(rollout, route=((1., .5), (0., 1.)))
    np.testing.assert_allclose(coupled[:, 0], first + .5 * second, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(coupled[:, 1], per_type[1], rtol=1e-6)
    weighed = PART(rollout, weights=(2., 0.))
    np.testing.assert_allclose(weighed, jnp.stack([2 * first, 0 * first], axis=1), rtol=1e-6)

  def test_one_reward_and_one_type_is_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0], [0, 1]], segment=jnp.zeros((5, 2), jnp.int32))
    np.testing.assert_allclose(
        PART(rollout), PLAIN(rollout)[:, None] * rollout.mask, rtol=1e-6)

  def test_a_separator_splits_the_response(self):
    rollout = testing.make_rollout([[1, 0]], tokens=[[4, 7, 5, 7, 6], [4, 5]])
    types = segments.segment_types(rollout, split_token=7, num_types=2)
    np.testing.assert_array_equal(types, [[0, 0, 1, 1, 1], [0] * 5])

  def test_an_unknown_type_is_not_silent(self):
    rollout = make(segment=SEGMENT.at[1, 0].set(2))
    assert np.isnan(PART(rollout)).tolist() == [[False] * 3, [True, False, False]]
    off_mask = make(segment=SEGMENT.at[0, 2].set(-1))
    assert np.isfinite(PART(off_mask)).all()

  def test_refusals(self):
    rollout = make()
    with pytest.raises(ValueError, match="extras\\['segment'\\]"):
      PART(rollout.replace(extras={}))
    with pytest.raises(ValueError, match='wider than the 2 columns'):
      PART(rollout, route=((1., 0., 0.),))


class SegmentMeanTest(chex.TestCase):

  def _value(self, part, rollout):
    """What a token mean of per-token advantages comes to (the loss of logp -1)."""
    cell = testing.make_cell(part(rollout), mask=rollout.mask, weigh=aggregate.token_mean)
    terms, _ = losses.policy_gradient(testing.make_output(-rollout.mask), cell, {})
    return testing.objective(terms, cell.weights['loss'])

  def test_worked(self):
    """Per token 1, 3, 3, 3 of types 0, 1, 1, 1: 2, where a token mean gives 2.5."""
    rollout = testing.make_rollout(
        [[0]], lengths=[4], segment=jnp.array([[0, 1, 1, 1]]))
    base = lambda r: jnp.array([[1., 3, 3, 3]]) * r.mask
    np.testing.assert_allclose(self._value(base, rollout), 2.5, rtol=1e-6)
    for num_types in (2, 5):  # types that are not there do not enter
      part = functools.partial(advantages.segment_mean, base=base, num_types=num_types)
      np.testing.assert_allclose(self._value(part, rollout), 2.0, rtol=1e-6)

  def test_one_type_changes_nothing(self):
    rollout = testing.make_rollout([[1, 0]], lengths=[3, 1], segment=jnp.zeros((2, 3), jnp.int32))
    part = functools.partial(advantages.segment_mean, base=PLAIN)
    np.testing.assert_allclose(part(rollout), PLAIN(rollout)[:, None] * rollout.mask, rtol=1e-6)

  def test_range(self):
    with pytest.raises(ValueError, match='num_types=0'):
      advantages.segment_mean(make(), num_types=0)
