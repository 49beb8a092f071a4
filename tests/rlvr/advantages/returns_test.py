"""The raw reward and GAE."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing
from rlvr.advantages import returns


def test_reinforce():
  rollout = testing.make_rollout([[1, None, .5]])
  np.testing.assert_array_equal(advantages.reinforce(rollout), [1, 0, .5])


def test_fault_20_masked_steps_are_stepped_over():
  """fault 20: r [0,1,0], V [0,0,100], mask [1,1,0], trace .95 gives [.95,1,0]."""
  reward, value = jnp.array([[0., 1, 0]]), jnp.array([[0., 0, 100]])
  mask = jnp.array([[1., 1, 0]])
  result = returns.masked_gae(reward, value, mask, discount=1., trace=.95)
  np.testing.assert_allclose(result, [[.95, 1, 0]], rtol=1e-6)
  poisoned = returns.masked_gae(
      reward.at[0, 2].set(jnp.nan), value.at[0, 2].set(jnp.nan), mask, discount=1., trace=.95)
  np.testing.assert_array_equal(poisoned, result)


def test_fault_20_the_environment_is_stepped_over():
  """fault 20: with environment tokens in the middle, as if they were cut out."""
  rng = np.random.default_rng(0)
  reward, value = rng.normal(size=(2, 1, 5)).astype(np.float32)
  mask = jnp.array([[1., 0, 0, 1, 1]])
  kept = np.array([0, 3, 4])
  long = returns.masked_gae(reward, value, mask, discount=.9, trace=.8)
  short = returns.masked_gae(
      reward[:, kept], value[:, kept], jnp.ones((1, 3)), discount=.9, trace=.8)
  np.testing.assert_allclose(long[:, kept], short, rtol=1e-5)
  np.testing.assert_array_equal(long[0, 1:3], 0)


def test_gae_limits():
  rollout = testing.make_rollout([[1., 0]], lengths=[3, 2])
  last = jnp.array([1., 0])[:, None]
  # trace 1: the outcome less the value; trace 0: one-step differences.
  np.testing.assert_allclose(
      advantages.gae(rollout, trace=1.), (last - rollout.value) * rollout.mask, rtol=1e-5)
  one_step = advantages.gae(rollout, trace=0.)
  np.testing.assert_allclose(one_step[0, :2], jnp.diff(rollout.value[0]), rtol=1e-5)
  np.testing.assert_allclose(one_step[0, 2], 1 - rollout.value[0, 2], rtol=1e-5)


def test_gae_pays_the_last_policy_token():
  rollout = testing.make_rollout([[1., 1]], masks=[[1, 0, 1, 0], [0, 0]])
  rollout = rollout.replace(value=jnp.zeros((2, 4)))
  np.testing.assert_allclose(
      advantages.gae(rollout, trace=.5), [[.5, 0, 1, 0], [0, 0, 0, 0]], rtol=1e-6)


def test_gae_refusals():
  rollout = testing.make_rollout([[1.]])
  with pytest.raises(ValueError, match='score_first'):
    advantages.gae(rollout.replace(value=None))
  with pytest.raises(ValueError, match='trace=2'):
    advantages.gae(rollout, trace=2.)


class TestSao:
  VALUE = jnp.array([[.2, .4, 9, .6]])

  def _gae(self, trace):
    rollout = testing.make_rollout([[1.]], masks=[[1, 1, 0, 1]]).replace(value=self.VALUE)
    return advantages.gae(rollout, trace=trace)[0]

  def test_the_cards_gae(self):
    np.testing.assert_allclose(self._gae(1.), [.8, .6, 0, .4], rtol=1e-5)
    np.testing.assert_allclose(self._gae(0.), [.2, .2, 0, .4], rtol=1e-5)
    np.testing.assert_allclose(self._gae(.5), [.4, .4, 0, .4], rtol=1e-5)

  def test_lambda_grows_with_the_response(self):
    trace = returns.adaptive_trace(jnp.array([0, 1, 100]), 1.5)
    np.testing.assert_allclose(trace, [0, 1 / 3, 149 / 150], rtol=1e-6)
    np.testing.assert_allclose(1 / (1 - trace[1:]), [1.5, 150], rtol=1e-4)

  def test_is_gae_at_each_rows_own_lambda(self):
    masks = [[1, 1, 0, 1], [1], [1, 1]]
    rollout = testing.make_rollout([[1., 0, 1]], masks=masks)
    result = advantages.sao(rollout)
    for row, length in enumerate((3, 1, 2)):
      trace = 1 - 1 / (1.5 * length)
      np.testing.assert_allclose(result[row], advantages.gae(rollout, trace=trace)[row], rtol=1e-5,
                                 atol=1e-6)

  def test_environment_tokens_change_nothing(self):
    short = testing.make_rollout([[1.]], masks=[[1, 1, 1]]).replace(value=self.VALUE[:, [0, 1, 3]])
    long = testing.make_rollout([[1.]], masks=[[1, 1, 0, 1]]).replace(value=self.VALUE)
    np.testing.assert_allclose(advantages.sao(long)[0, [0, 1, 3]], advantages.sao(short)[0],
                               rtol=1e-6)

  def test_a_perfect_critic_leaves_nothing(self):
    rollout = testing.make_rollout([[1., 0]], masks=[[1, 0, 1], [1, 1]])
    rollout = rollout.replace(value=jnp.broadcast_to(rollout.reward[:, None], (2, 3)))
    np.testing.assert_allclose(advantages.sao(rollout), 0., atol=1e-6)

  def test_refusals(self):
    rollout = testing.make_rollout([[1.]])
    with pytest.raises(ValueError, match='score_first'):
      advantages.sao(rollout.replace(value=None))
    with pytest.raises(ValueError, match='horizon=0.5'):
      advantages.sao(rollout, horizon=.5)
