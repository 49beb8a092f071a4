"""Weights of score functions: worked gradients of CISPO, SAO's DIS, PNPO, TOPR."""

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
from rlvr.losses import weights

PPO_GRADIENT = dict(ratio=ratios.token_ratio, clip=clips.ppo_clip)


def make_cell(log_ratio, advantages, *, mask=None, rollout=False, weigh=aggregate.token_mean):
  """Logp -1 everywhere, the old (or the sampler's) log-probability log_ratio below it."""
  log_ratio = jnp.asarray(log_ratio, jnp.float32)
  mask = jnp.ones_like(log_ratio) if mask is None else jnp.asarray(mask, jnp.float32)
  other = 'rollout_logp' if rollout else 'old_logp'
  cell = testing.make_cell(jnp.asarray(advantages, jnp.float32), mask=mask, weigh=weigh,
                           **{other: -1.0 - log_ratio})
  return jnp.full(log_ratio.shape, -1.0), cell


def gradient(logp, cell, part=losses.score_function, **options):
  def loss(logp):
    terms = part(testing.make_output(logp), cell, {}, **options)[0]
    return testing.objective(terms, cell.weights['loss'])
  return jax.grad(loss)(logp)


def score(weight, **options):
  return functools.partial(losses.score_function, weight=functools.partial(weight, **options))


class TestScoreFunction:

  @pytest.mark.parametrize('name', losses.WEIGHTS)
  def test_on_policy_it_is_reinforce(self, name):
    """Gradient -A times the aggregate's weight: GRPO's, in either mean."""
    for weigh in (aggregate.token_mean, aggregate.seq_mean_token_mean):
      logp, cell = make_cell(
          np.zeros((2, 3)), [1., -2], mask=[[1, 1, 1], [1, 0, 1]], weigh=weigh)
      cell = cell.replace(rollout_logp=cell.old_logp)
      expected = -jnp.array([[1.], [-2]]) * cell.weights['loss']
      np.testing.assert_allclose(
          gradient(logp, cell, score(losses.WEIGHTS[name])), expected, rtol=1e-5)
      bare = cell.replace(old_logp=None)
      np.testing.assert_allclose(
          gradient(logp, bare, score(losses.WEIGHTS[name])), expected, rtol=1e-5)

  @pytest.mark.parametrize('name', losses.WEIGHTS)
  def test_gradient_is_that_of_logp_with_the_weight_frozen(self, name):
    log_ratio = np.array([[.1, -.05, .15], [.02, -.1, .2]])
    logp, cell = make_cell(log_ratio, [1., -1.5])
    cell = cell.replace(rollout_logp=cell.old_logp)
    weight = losses.WEIGHTS[name]
    w = weight(testing.make_output(logp), cell)
    frozen = lambda logp: -jnp.sum(cell.weights['loss'] * w * cell.advantages * logp)
    step = .01
    expected = [(frozen(logp.at[i].add(step)) - frozen(logp.at[i].add(-step))) / (2 * step)
                for i in np.ndindex(2, 3)]
    np.testing.assert_allclose(
        gradient(logp, cell, score(weight)).reshape(-1), expected, atol=2e-5)

  def test_its_value_is_the_weighted_advantage(self):
    logp, cell = make_cell([[np.log(3.), 0.]], [2.])
    terms, metrics = losses.score_function(testing.make_output(logp), cell, {})
    np.testing.assert_allclose(terms, [[-6., -2]], rtol=1e-5)
    np.testing.assert_allclose(metrics['weight'], [[3., 1]], rtol=1e-5)
    np.testing.assert_array_equal(metrics['active'], [[1, 1]])


class TestCispo:

  def test_worked(self):
    """Card: rho 8, 1, .5 at A = 1 and 8 at A = -1, cap 5, token-mean over 4."""
    logp, cell = make_cell(np.log([[8, 1, .5], [8, 1, 1]]), [1., -1],
                           mask=[[1, 1, 1], [1, 0, 0]])
    np.testing.assert_allclose(
        gradient(logp, cell), [[-1.25, -.25, -.125], [1.25, 0, 0]], rtol=1e-5)

  def test_no_token_is_silent(self):
    log_ratio = np.linspace(-6, 6, 13)[None].repeat(2, 0)
    logp, cell = make_cell(log_ratio, [1., -1])
    np.testing.assert_array_equal(
        np.sign(gradient(logp, cell)), np.array([[-1.], [1]]) * np.ones(13))

  def test_unbounded_it_is_the_unclipped_surrogate(self):
    logp, cell = make_cell(np.linspace(-3, 3, 8).reshape(2, 4), [1., -.5])
    np.testing.assert_allclose(
        gradient(logp, cell, score(weights.cispo, high=np.inf)),
        gradient(logp, cell, losses.surrogate, clip=clips.no_clip), rtol=1e-5)

  def test_where_ppo_is_silent_it_pushes(self):
    logp, cell = make_cell(np.log([[3., 1]]), [1.])
    assert gradient(logp, cell, losses.surrogate, **PPO_GRADIENT)[0, 0] == 0
    np.testing.assert_allclose(gradient(logp, cell)[0, 0], -3 / 2, rtol=1e-5)

  @pytest.mark.parametrize('options', [{'low': -1.}, {'low': 2.}, {'high': .5}])
  def test_out_of_range(self, options):
    logp, cell = make_cell([[0.]], [1.])
    with pytest.raises(ValueError, match='cispo: low='):
      weights.cispo(testing.make_output(logp), cell, **options)


class TestDis:

  def test_worked_for_tools(self):
    """Card: rho .69, .71, (env), 5.9 with (0.3, 5), A = 1, -2, ., 1, N = 3."""
    logp, cell = make_cell(np.log([[.69, .71, 1, 5.9]]), [[1., -2, 9, 1]],
                           mask=[[1, 1, 0, 1]], rollout=True)
    np.testing.assert_allclose(
        weights.dis(testing.make_output(logp), cell), [[0, .71, 0, 5.9]], rtol=1e-5)
    np.testing.assert_allclose(
        gradient(logp, cell, score(weights.dis)), [[0, .47333, 0, -1.96667]], rtol=1e-4)

  def test_worked_for_code(self):
    logp, cell = make_cell(np.log([[6.1, 1, 1, .19]]), [1.], mask=[[1, 1, 0, 1]], rollout=True)
    weight = weights.dis(testing.make_output(logp), cell, low=.8, high=3.)
    np.testing.assert_allclose(weight, [[0, 1, 0, 0]], rtol=1e-5)

  def test_blind_to_the_sign(self):
    logp, cell = make_cell(np.log([[.5], [.5]]), [1., -1], rollout=True)
    np.testing.assert_array_equal(gradient(logp, cell, score(weights.dis)), 0.0)

  def test_without_a_lower_bound(self):
    logp, cell = make_cell([[-5.]], [1.], rollout=True)
    weight = weights.dis(testing.make_output(logp), cell, low=1.)
    np.testing.assert_allclose(weight, np.exp([[-5.]]), rtol=1e-5)

  def test_far_off_or_not_finite_is_rejected(self):
    logp = jnp.array([[-1., -501, -jnp.inf, -1, -jnp.inf]])
    cell = testing.make_cell([1.], mask=jnp.ones((1, 5)),
                             rollout_logp=jnp.array([[-501., -1, -1, -jnp.inf, -jnp.inf]]))
    part = score(weights.dis, low=1.)
    terms, _ = part(testing.make_output(logp), cell, {})
    grad = gradient(logp, cell, part)
    assert np.isfinite(terms).all()
    # Without a lower bound only e^-20 is left of the second.
    np.testing.assert_allclose(grad, np.zeros((1, 5)), atol=1e-8)
    np.testing.assert_array_equal(gradient(logp, cell, score(weights.dis)), 0.0)

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}])
  def test_out_of_range(self, options):
    logp, cell = make_cell([[0.]], [1.])
    with pytest.raises(ValueError, match='dis: low='):
      weights.dis(testing.make_output(logp), cell, **options)


class TestPnpo:
  LOG_RATIO = np.array([[.3, -.1, .1]])

  def _grad(self, low, high, log_ratio=LOG_RATIO, mask=None):
    logp, cell = make_cell(log_ratio, [2.], mask=mask, weigh=aggregate.seq_mean_token_mean)
    return gradient(logp, cell, score(weights.pnpo, low=low, high=high))

  def test_worked(self):
    logp, cell = make_cell(self.LOG_RATIO, [2.])
    out = testing.make_output(logp)
    w = np.array([[1.34986, 1.10517, 1.10517]])
    np.testing.assert_allclose(weights.pnpo(out, cell, low=.2, high=.3), w, rtol=1e-5)
    np.testing.assert_allclose(
        weights.pnpo(out, cell, low=.2, high=.15), w * [[0, 1, 1]], rtol=1e-5)
    np.testing.assert_allclose(self._grad(.2, .15), [[0, -.736781, -.736781]], rtol=1e-5)
    np.testing.assert_array_equal(self._grad(7e-4, 9.5e-4), 0.0)

  def test_first_is_the_token_ratio_and_last_is_gspo(self):
    logp, cell = make_cell(self.LOG_RATIO, [1.])
    out = testing.make_output(logp)
    w = weights.pnpo(out, cell, low=9., high=9.)
    np.testing.assert_allclose(w[:, 0], ratios.token_ratio(out, cell)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(w[:, -1], ratios.sequence_ratio(out, cell)[:, -1], rtol=1e-6)

  def test_causal(self):
    """Changing a token changes no weight before it."""
    moved = self.LOG_RATIO + [[0, 0, 5.]]
    first, second = (ratios.prefix_log_weight(
        jnp.asarray(x), jnp.zeros((1, 3)), jnp.ones((1, 3))) for x in (self.LOG_RATIO, moved))
    np.testing.assert_array_equal(first[:, :2], second[:, :2])
    assert first[0, 2] != second[0, 2]

  def test_accepted_tokens_do_not_depend_on_rejected_ones(self):
    np.testing.assert_array_equal(self._grad(.2, .15)[:, 1:], self._grad(.2, .3)[:, 1:])

  def test_environment_tokens_change_nothing(self):
    wide = np.array([[7., .3, -.1, -9, .1]])
    grad = self._grad(.2, .15, wide, [[0, 1, 1, 0, 1]])
    np.testing.assert_array_equal(grad[:, [1, 2, 4]], self._grad(.2, .15))
    np.testing.assert_array_equal(grad[:, [0, 3]], 0.0)

  def test_the_gate_accepts_alike_at_every_place(self):
    """std of the mean falls as 1 / sqrt(t), as the band does."""
    sigma, length = .1, 256
    noise = sigma * jax.random.normal(jax.random.key(0), (4000, length))
    ones = jnp.ones_like(noise)
    log_w = ratios.prefix_log_weight(noise, jnp.zeros_like(noise), ones)
    for t in (16, 256):
      np.testing.assert_allclose(jnp.std(log_w[:, t - 1]), sigma / np.sqrt(t), rtol=.05)
    tolerance = sigma / np.sqrt(length)
    accepted = jnp.mean(weights.prefix_gate(jnp.exp(log_w), ones, tolerance, tolerance), axis=0)
    np.testing.assert_allclose(accepted[15], accepted[255], rtol=.05)

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}])
  def test_out_of_range(self, options):
    logp, cell = make_cell([[0.]], [1.])
    with pytest.raises(ValueError, match='pnpo: low='):
      weights.pnpo(testing.make_output(logp), cell, **options)


class TestTopr:

  def test_tapers_the_whole_of_a_bad_response(self):
    log_ratio = np.log([[.5, .5], [.5, .5], [2, 2]])
    logp, cell = make_cell(log_ratio, [1., -1, -1])
    weight = weights.topr(testing.make_output(logp), cell)
    np.testing.assert_allclose(weight, [[1, 1], [.25, .25], [1, 1]], rtol=1e-5)

  def test_out_of_range(self):
    logp, cell = make_cell([[0.]], [1.])
    with pytest.raises(ValueError, match='topr: high=0.5'):
      weights.topr(testing.make_output(logp), cell, high=.5)
