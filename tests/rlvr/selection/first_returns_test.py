"""The task filter of UI-S1: the spread of the return from the first step on."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import selection
from rlvr import testing


def weights(rewards, trajectory, step_index, match, **options):
  rollout = testing.make_rollout(
      rewards, trajectory=jnp.array(trajectory), step_index=jnp.array(step_index),
      match=jnp.array(match))
  return selection.varied_returns(rollout, rollout.reward, **options)


class TestVariedReturns:

  def test_the_return_and_not_the_reward_is_read(self):
    """R_0 are 1.75 and 1: std .375; without a future 1 and 1."""
    two = functools.partial(
        weights, [[1, 1, 1, 1, .55]], [0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(two(), 1)
    np.testing.assert_array_equal(two(min_std=.375), 0)  # not above
    np.testing.assert_array_equal(two(discount=0.), 0)

  def test_groups_are_judged_apart_and_a_sole_rollout_is_dropped(self):
    result = weights([[1, .1], [1, 1], [1]], [0, 1, 0, 1, 0], [0] * 5, [1, 0, 1, 1, 1])
    np.testing.assert_array_equal(result, [1, 1, 0, 0, 0])

  def test_an_ungraded_row_keeps_the_base(self):
    result = weights([[1, None, .1]], [0, 1, 2], [0] * 3, [1, 1, 0])
    np.testing.assert_array_equal(result, 1)
    result = weights([[1, None, .1]], [0, 1, 2], [0] * 3, [1, 1, 0], base=selection.graded_rows)
    np.testing.assert_array_equal(result, [1, 0, 1])

  def test_refusals(self):
    with pytest.raises(ValueError, match='min_std=-1'):
      weights([[1, 0]], [0, 1], [0, 0], [1, 0], min_std=-1)
    rollout = testing.make_rollout([[1, 0]])
    with pytest.raises(ValueError, match='step_index'):
      selection.varied_returns(rollout, rollout.reward)
