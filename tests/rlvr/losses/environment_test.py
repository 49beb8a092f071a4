"""ECHO: the card's numbers, its two divisors, and which tokens it sees."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import testing

LOGP = jnp.log(jnp.array([[.5, .25, .8, .1]]))
KINDS = [[1, 0, 1, 0]]  # action, observation, action, observation


def objective(logp, coef=.1, advantage=2., masks_=KINDS, weigh=aggregate.token_mean, **extras):
  """L_RL + coef * L_env on policy, each with its own divisor."""
  rollout = testing.make_rollout([[1.] * len(masks_)], masks=masks_)
  rows = jnp.ones(len(masks_))
  own = weigh(masks.observed_tokens(rollout), rows)
  cell = testing.make_cell(
      jnp.full(rollout.mask.shape, advantage), mask=rollout.mask,
      old_logp=jax.lax.stop_gradient(logp), valid=rollout.valid, extras=extras)
  out = testing.make_output(logp)
  policy, _ = losses.surrogate(out, cell, {})
  env, _ = losses.echo_env(out, cell.replace(weights={'env': own}), {})
  return (testing.objective(policy, cell.weights['loss'])
          + coef * testing.objective(env, own))


class TestEchoEnv:

  def test_worked(self):
    loss, grad = jax.value_and_grad(objective)(LOGP)
    np.testing.assert_allclose(loss, -1.81556, rtol=1e-5)
    np.testing.assert_allclose(grad, [[-1, -.05, -1, -.05]], rtol=1e-6)

  def test_dropped_tokens_stay_in_the_divisor(self):
    drop = jnp.array([[0, 1, 0, 0]])
    loss, grad = jax.value_and_grad(lambda x: objective(x, 1., 0., drop=drop))(LOGP)
    np.testing.assert_allclose(loss, 1.15129, rtol=1e-5)
    np.testing.assert_allclose(grad, [[0, 0, 0, -.5]], rtol=1e-6)

  def test_without_weight_it_is_grpo_and_actions_do_not_feel_it(self):
    grad = lambda coef, **more: jax.grad(lambda x: objective(x, coef, **more))(LOGP)
    act = np.array(KINDS) != 0
    np.testing.assert_array_equal(grad(0.)[~act], 0)
    np.testing.assert_array_equal(grad(0.)[act], grad(.7)[act])
    np.testing.assert_array_equal(grad(.7, drop=jnp.array([[0, 1, 0, 1]])), grad(0.))

  def test_dead_rows_still_learn_the_environment(self):
    grad = jax.grad(lambda x: objective(x, advantage=0.))(LOGP)
    np.testing.assert_array_equal(np.asarray(grad) < 0, [[False, True, False, True]])
    np.testing.assert_array_equal(grad[:, ::2], 0)
    assert 'echo_env' not in losses.ADVANTAGE_ONLY  # so `prepare` keeps such rows

  def test_no_observation(self):
    loss, grad = jax.value_and_grad(lambda x: objective(x, 1., 0., masks_=[[1] * 4]))(LOGP)
    assert loss == 0
    np.testing.assert_array_equal(grad, 0)

  def test_finite_differences_for_both_averages(self):
    kinds = [[1, 0, 1, 0], [1, 0, 0, 0]]
    logp = jnp.concatenate([LOGP, LOGP - .3])
    for weigh in (aggregate.token_mean, aggregate.seq_mean_token_mean):
      part = lambda x, w=weigh: objective(x, .1, 0., kinds, w)
      step = jnp.zeros_like(logp).at[1, 2].set(.1)
      slope = (part(logp + step) - part(logp - step)) / .2
      np.testing.assert_allclose(jax.grad(part)(logp)[1, 2], slope, rtol=1e-4)

  def test_padding_and_order_of_rows_change_nothing(self):
    kinds = [[1, 0, 1, 0], [1, 0]]
    logp = jnp.concatenate([LOGP, LOGP])
    wide = jnp.pad(logp, ((0, 0), (0, 3)))
    padded = testing.make_rollout([[1., 1.]], masks=kinds, max_tokens=7)
    tight = testing.make_rollout([[1., 1.]], masks=kinds)
    value = lambda rollout, x: testing.objective(
        -x, aggregate.token_mean(masks.observed_tokens(rollout), jnp.ones(2)))
    np.testing.assert_allclose(value(padded, wide), value(tight, logp), rtol=1e-6)
    np.testing.assert_allclose(
        objective(logp, masks_=kinds), objective(logp[::-1], masks_=kinds[::-1]), rtol=1e-6)


def test_observations_before_the_first_action_are_context():
  rollout = testing.make_rollout([[1.]], masks=[[0, 0, 1, 0]], padding=1)
  mask = masks.observed_tokens(rollout)
  np.testing.assert_array_equal(mask, [[0, 0, 0, 1], [0] * 4])
  assert not (np.asarray(mask) * np.asarray(masks.policy_tokens(rollout))).any()
