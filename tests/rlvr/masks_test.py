"""Masks, and that what they leave out gets no gradient."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import testing


def test_fault_8_environment_tokens_stay_out_of_the_loss():
  """fault 8: [gen gen obs obs gen] trains the policy's tokens only."""
  rollout = testing.make_rollout([[1., 0.]], masks=[[1, 1, 0, 0, 1], [1, 1, 1]], padding=1)
  mask = masks.policy_tokens(rollout)
  np.testing.assert_array_equal(mask, [[1, 1, 0, 0, 1], [1, 1, 1, 0, 0], [0] * 5])
  np.testing.assert_array_equal(
      masks.environment_tokens(rollout), [[0, 0, 1, 1, 0], [0] * 5, [0] * 5])
  np.testing.assert_array_equal(
      masks.valid_tokens(rollout), [[1] * 5, [1, 1, 1, 0, 0], [0] * 5])
  cell = testing.make_cell([1., -1, 0], mask=mask, old_logp=rollout.old_logp)

  def loss(logp):
    terms, _ = losses.surrogate(testing.make_output(logp), cell, {})
    return testing.objective(terms, aggregate.token_mean(mask, jnp.ones(3), rollout.where))

  grad = jax.grad(loss)(rollout.old_logp)
  np.testing.assert_array_equal(grad[0, 2:4], 0.0)
  np.testing.assert_allclose(grad[0, jnp.array([0, 1, 4])], -1 / 6, rtol=1e-6)
