"""Ratios: worked values of GRPO and GSPO, overflow, and the on-policy case."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import aggregate
from rlvr import losses
from rlvr import testing
from rlvr.losses import clips
from rlvr.losses import ratios

MASK = jnp.array([[1., 1, 1], [1, 1, 0]])
LOG_RATIO = jnp.array([[.3, -.1, .1], [-.2, .1, jnp.nan]])
OLD = jnp.full((2, 3), -1.)
WIDE = functools.partial(clips.ppo_clip, low=.9, high=9.)
PAPER = functools.partial(clips.ppo_clip, low=3e-4, high=4e-4)


def _loss(ratio, clip, *, log_ratio=LOG_RATIO, mask=MASK, advantages=(1., -1.),
          weigh=aggregate.seq_mean_token_mean):
  cell = testing.make_cell(jnp.array(advantages), mask=mask, old_logp=OLD[:, :mask.shape[1]],
                           weigh=weigh)

  def loss(logp):
    terms, _ = losses.surrogate(testing.make_output(logp), cell, {}, ratio=ratio, clip=clip)
    return testing.objective(terms, cell.weights['loss'])

  return jax.value_and_grad(loss)(cell.old_logp + log_ratio)


def test_sequence_log_ratio():
  np.testing.assert_allclose(
      ratios.sequence_log_ratio(OLD + LOG_RATIO, OLD, MASK), [.1, -.05], rtol=1e-4)
  empty = ratios.sequence_log_ratio(OLD, OLD, jnp.zeros((2, 3)))
  np.testing.assert_array_equal(empty, 0.0)
  # One token of 5 nats among 100.
  long = jnp.zeros((1, 100)).at[0, 40].set(5.)
  s = ratios.sequence_log_ratio(long, jnp.zeros((1, 100)), jnp.ones((1, 100)))
  np.testing.assert_allclose(jnp.exp(s), [1.0513], rtol=1e-4)


def test_gspo_worked():
  for ratio in (ratios.sequence_ratio, ratios.sequence_token_ratio):
    value, grad = _loss(ratio, WIDE)
    np.testing.assert_allclose(value, (-np.exp(.1) + np.exp(-.05)) / 2, rtol=1e-4)
    s = np.exp([[.1], [-.05]])
    expected = np.array([[-1.], [1]]) * s / np.array([[3.], [2]]) / 2 * np.asarray(MASK)
    np.testing.assert_allclose(grad, expected, rtol=1e-4)
    value, grad = _loss(ratio, PAPER)
    np.testing.assert_allclose(value, (-1.0004 + .9997) / 2, rtol=1e-3)
    np.testing.assert_array_equal(grad, 0.0)


def test_length_one_is_grpo():
  mask, log_ratio = jnp.ones((2, 1)), jnp.array([[.3], [-.1]])
  for ratio in (ratios.sequence_ratio, ratios.sequence_token_ratio, ratios.response_ratio):
    ours = _loss(ratio, clips.ppo_clip, log_ratio=log_ratio, mask=mask)
    grpo = _loss(ratios.token_ratio, clips.ppo_clip, log_ratio=log_ratio, mask=mask)
    np.testing.assert_allclose(ours[0], grpo[0], rtol=1e-6)
    np.testing.assert_allclose(ours[1], grpo[1], rtol=1e-6)


@pytest.mark.parametrize('name', ratios.RATIOS)
def test_on_policy_is_exactly_one(name):
  """Without old_logp the frozen logp serves: value 1, GRPO's gradient for each ratio."""
  logp = OLD + LOG_RATIO
  cell = testing.make_cell([1., -1], mask=MASK, rollout_logp=logp,
                           weigh=aggregate.seq_mean_token_mean)
  rho = ratios.RATIOS[name](testing.make_output(logp), cell)
  np.testing.assert_array_equal(rho, 1.0)

  def loss(logp):
    terms, _ = losses.surrogate(testing.make_output(logp), cell, {}, ratio=ratios.RATIOS[name])
    return testing.objective(terms, cell.weights['loss'])

  per_row = 1.0 if name == 'response_ratio' else 1 / jnp.array([[3.], [2]])
  expected = jnp.array([[-.5], [.5]]) * per_row * MASK
  np.testing.assert_allclose(jax.grad(loss)(logp), expected, rtol=1e-6)


def test_response_ratio():
  rho = ratios.response_ratio(
      testing.make_output(OLD + LOG_RATIO), testing.make_cell([1., 1], mask=MASK, old_logp=OLD))
  np.testing.assert_allclose(rho, [[np.exp(.3)] * 3, [np.exp(-.1)] * 2 + [1]], rtol=1e-5)


def test_token_order_does_not_matter_to_sequence_ratios():
  order = jnp.array([2, 0, 1])
  for ratio in (ratios.sequence_ratio, ratios.response_ratio):
    cell = testing.make_cell([1., 1], mask=MASK, old_logp=OLD)
    moved = testing.make_cell([1., 1], mask=MASK[:, order], old_logp=OLD)
    there = ratio(testing.make_output((OLD + LOG_RATIO)[:, order]), moved)
    np.testing.assert_allclose(
        there, ratio(testing.make_output(OLD + LOG_RATIO), cell)[:, order], rtol=1e-6)


def test_overflow_stays_finite():
  """100 nats in either direction, and -inf on one side or both."""
  logp = jnp.array([[99., -101, -jnp.inf, -jnp.inf, -1]])
  old = jnp.array([[-1., -1, -1, -jnp.inf, -jnp.inf]])
  difference = ratios.log_ratio(logp, old, jnp.ones((1, 5)))
  np.testing.assert_array_equal(difference, [[20, -20, -20, 0, 20]])
  grad = jax.grad(lambda x: jnp.sum(jnp.exp(ratios.log_ratio(x, old, jnp.ones((1, 5))))))(logp)
  assert np.isfinite(grad).all()


class TestProxyRatio:
  MU = jnp.full((1, 3), -2.)

  def _ratio(self, logp, mix):
    cell = testing.make_cell([0.], mask=[[1, 1, 0]], rollout_logp=self.MU)
    return ratios.proxy_ratio(testing.make_output(logp), cell, mix=mix)

  def test_is_a_power_of_the_ratio_to_the_sampler(self):
    logp = self.MU + jnp.array([[.4, -.6, 7]])
    for mix in (.25, .5, 1.):
      np.testing.assert_allclose(
          self._ratio(logp, mix), jnp.exp(jnp.array([[.4 * mix, -.6 * mix, 0]])), rtol=1e-5)
    np.testing.assert_array_equal(self._ratio(self.MU, .3), 1.)

  def test_its_clip_is_one_of_the_sampler_at_a_power(self):
    mix, high, band = .5, .2, 2.
    for log_ratio in np.linspace(-1, 1, 21, dtype=np.float32):
      r_s = float(self._ratio(self.MU + log_ratio, mix)[0, 0])
      r_d = np.exp((1 - mix) * log_ratio)  # prox / mu
      assert (r_s > 1 + high) == (np.exp(log_ratio) > (1 + high) ** (1 / mix))
      assert (r_d > band) == (np.exp(log_ratio) > band ** (1 / (1 - mix)))

  def test_its_gradient_is_the_ratio(self):
    logp = self.MU + .3
    grad = jax.grad(lambda x: jnp.sum(self._ratio(x, .5)))(logp)
    np.testing.assert_allclose(grad[0], [np.exp(.15), np.exp(.15), 0], rtol=1e-5)

  @pytest.mark.parametrize('mix', [0., 1.5])
  def test_out_of_range(self, mix):
    with pytest.raises(ValueError, match=f'mix={mix}'):
      self._ratio(self.MU, mix)
