"""Columns of the verdict and their weighted sum."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import rewards
from rlvr import testing
from rlvr.rewards import columns


def test_weighted_columns():
  rollout = testing.make_rollout(
      [[1, 0, None]], columns=[[1, .5], [0, 2], [9, 9]], padding=1)
  np.testing.assert_array_equal(rewards.weighted_columns(rollout), [1, 0, 0, 0])
  np.testing.assert_array_equal(rewards.weighted_columns(rollout), rewards.outcome(rollout))
  np.testing.assert_array_equal(
      rewards.weighted_columns(rollout, weights=()), [1.5, 2, 0, 0])
  np.testing.assert_array_equal(
      rewards.weighted_columns(rollout, weights=(.5, 2.)), [1.5, 4, 0, 0])


def test_a_column_that_does_not_apply_is_zero():
  rollout = testing.make_rollout([[1, 0]], columns=[[1, np.nan], [0, 2]])
  np.testing.assert_array_equal(columns.graded_columns(rollout), [[1, 0], [0, 2]])
  hidden = rollout.replace(
      columns=jnp.full_like(rollout.columns, 5.), column_where=jnp.array([[True, False]] * 2))
  np.testing.assert_array_equal(columns.graded_columns(hidden), [[5, 0], [5, 0]])


def test_refusals():
  rollout = testing.make_rollout([[1]])
  with pytest.raises(ValueError, match='2 entries for the 1 columns'):
    rewards.weighted_columns(rollout, weights=(1., 1.))
  with pytest.raises(ValueError, match='columns is None'):
    rewards.weighted_columns(rollout.replace(columns=None))
