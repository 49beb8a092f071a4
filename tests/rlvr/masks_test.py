"""Masks, and that what they leave out gets no gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


class TestAnswerAnchor:

  def start(self, tokens, marker, mask=None):
    tokens = jnp.array([tokens])
    mask = jnp.ones(tokens.shape) if mask is None else jnp.array([mask], jnp.float32)
    return int(masks.last_marker(tokens, mask, marker)[0])

  def test_the_cards_anchor(self):
    """[5 | 6 9 9 7 9 9 1] behind a prompt of one token: anchor 4, so the marker starts at 5."""
    assert 1 + self.start([6, 9, 9, 7, 9, 9, 1], (9, 9)) - 1 == 4
    assert self.start([9, 9, 1], (9, 9)) == -1  # right behind the prompt

  def test_where_a_marker_may_stand(self):
    assert self.start([4, 9], (9,)) == 1
    assert self.start([4, 9, 9, 9], (9, 9)) == 2  # overlapping: the last
    assert self.start([4, 5, 9], (9, 9)) == -1  # cut off
    assert self.start([9], (9,)) == self.start([9, 9], (9, 9)) == self.start([4], (9, 9)) == -1
    assert self.start([4, 9, 4, 9], (9,), mask=[1, 1, 1, 0]) == 1  # padding holds anything
    assert self.start([4, 9, 4, 9], (9,), mask=[1, 1, 0, 1]) == 1  # behind the environment's

  def test_right_answers_of_groups_that_have_two(self):
    rollout = testing.make_rollout(
        [[1, 1, 0, 1], [1, 0], [1, None]],
        tokens=[[4, 9, 4, 9], [4, 9], [4, 9], [4, 4], [4, 9], [4, 9], [4, 9], [4, 9]], padding=1)
    mask = np.zeros((9, 4))
    mask[0, 3] = mask[1, 1] = 1
    np.testing.assert_array_equal(masks.answer_anchor(rollout, marker=(9,)), mask)
    np.testing.assert_array_equal(masks.answer_anchor(rollout, marker=(9,), correct_at=2.0), 0)

  def test_needs_a_marker(self):
    with pytest.raises(ValueError, match='needs at least one token id'):
      masks.answer_anchor(testing.make_rollout([[1]]))
