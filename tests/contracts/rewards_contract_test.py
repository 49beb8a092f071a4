"""Every entry of REWARDS passes its stage's contract."""

import functools

import jax.numpy as jnp
import pytest

from rlvr import contracts
from rlvr import rewards


def with_extras(part):
  """part, on rollouts that hold the extras and the two criteria that parts read."""
  def on(rollout):
    extras = {'first_error': rollout.tokens[:, 0] % 5 - 1}
    criteria = (rollout.tokens[:, :2] % 2).astype(rollout.columns.dtype)
    columns = jnp.concatenate(
        [rollout.columns, jnp.where(rollout.graded[:, None], criteria, jnp.nan)], axis=1)
    return part(rollout.replace(
        columns=columns, column_where=columns == columns, extras=rollout.extras | extras))
  return on


@pytest.mark.parametrize('name', rewards.REWARDS)
def test_reward(name):
  contracts.check_reward(with_extras(rewards.REWARDS[name]))


def test_rrt_with_a_budget():
  contracts.check_reward(with_extras(functools.partial(rewards.rrt, points=(1, -1), budget=1)))
