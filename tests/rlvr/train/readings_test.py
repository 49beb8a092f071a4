"""What a batch was like, worked by hand."""

import direct
import jax
import jax.numpy as jnp
import pytest

from rlvr import types
from rlvr.train import readings


class TestRolloutMetrics:

  def test_worked(self):
    rollout = direct.make_rollout(
        [[1, 0], [1, 1], [None, 0]], lengths=[2, 4, 6, 8, 1, 3], padding=2,
        stops=[types.STOP_TOKEN] * 4 + [types.ABORT, types.BUDGET])
    rollout = rollout.replace(
        reward=jnp.where(rollout.graded, rollout.reward, 0.0), version=rollout.version + 3)
    metrics = jax.jit(readings.rollout_metrics)(rollout, jnp.int32(5))
    expected = {
        'reward': 3 / 5, 'reward_std': 1 / 6, 'outcome': 3 / 5, 'length': 4.0,
        'length_right': 16 / 3, 'length_wrong': 3.5, 'truncated': 1 / 6, 'aborted': 1 / 6,
        'ungraded': 1 / 6, 'dead_groups': 2 / 3, 'all_right_groups': 1 / 3, 'staleness': 2.0,
        'tokens': 24.0, 'rows': 6.0}
    assert set(metrics) == set(expected)
    for name, value in expected.items():
      assert float(metrics[name]) == pytest.approx(value), name
