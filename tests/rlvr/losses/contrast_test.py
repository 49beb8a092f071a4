"""ConSPO: the worked loss and gradient, and what a contrast must do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import testing
from rlvr.losses import contrast

REWARDS = [[1, 0, 0], [1, 1, 0], [0, 0]]  # two-sided, two-sided, one-sided
SCORES = jnp.array([-1., -1.2, -.9, -.7, -1.1, -.8, -1., -1.])


def objective(scores, rewards=REWARDS, *, step=0, lengths=None, **options):
  """The mean over two-sided prompts, as `prepare` weighs it; one score a response."""
  rollout = testing.make_rollout(rewards, lengths=lengths)
  mask = masks.two_sided_tokens(rollout)
  weight = aggregate.prompt_mean_seq_mean(
      mask, jnp.ones(mask.shape[0]), rollout.where, rollout.group)
  cell = testing.make_cell(
      rollout.reward, mask=rollout.mask, weights={'loss': weight}, reward=rollout.reward,
      group=rollout.group, extras={'step': jnp.full(mask.shape[0], step)})
  logp = jnp.broadcast_to(scores[:, None], mask.shape)
  terms, metrics = losses.conspo(testing.make_output(logp), cell, {}, **options)
  return testing.objective(terms, weight), metrics


def value_and_grad(scores, *args, **options):
  value, grad = jax.value_and_grad(lambda s: objective(s, *args, **options)[0])(scores)
  return float(value), np.asarray(grad)


class TestScores:

  def test_padding_and_length_do_not_matter(self):
    logp = jnp.array([[-1., -3, jnp.nan], [-1, -3, -2]])
    mask = jnp.array([[1., 1, 0], [1, 1, 1]])
    np.testing.assert_allclose(contrast.scores(logp, mask), [-2, -2])
    np.testing.assert_array_equal(contrast.scores(logp, jnp.zeros((2, 3))), 0)


class TestMargin:

  def test_worked(self):
    margin = contrast.margin_at(jnp.array([0, 50, 100, 500]), margin=.2, ramp_steps=100)
    np.testing.assert_allclose(margin, [0, .1, .2, .2], rtol=1e-6)


class TestConspo:

  def test_worked(self):
    value, grad = value_and_grad(SCORES[:3], [[1, 0, 0]])
    np.testing.assert_allclose(value, 1.349012, rtol=1e-5)
    np.testing.assert_allclose(grad, [-7.40504, .35119, 7.05385], rtol=1e-4)

  def test_the_mean_is_over_two_sided_prompts(self):
    """Two right ones against one: each has log(1 + e^((s_j - s_i) / .1))."""
    first, _ = value_and_grad(SCORES[:3], [[1, 0, 0]])
    second = np.mean(np.log1p(np.exp((-.8 - np.array([-.7, -1.1])) / .1)))
    value, grad = value_and_grad(SCORES)
    np.testing.assert_allclose(value, (first + second) / 2, rtol=1e-5)
    np.testing.assert_array_equal(grad[6:], 0.0)

  def test_conservation_and_signs(self):
    _, grad = value_and_grad(SCORES, step=40)
    np.testing.assert_allclose(np.add.reduceat(grad, [0, 3, 6]), 0, atol=1e-5)
    right = np.array([1, 0, 0, 1, 1, 0, 0, 0], bool)
    assert (grad[right] <= 0).all() and (grad[~right] >= 0).all()

  def test_the_hardest_of_each_side_is_pushed_most(self):
    _, grad = value_and_grad(SCORES)
    assert grad[2] > grad[1] and grad[4] < grad[3]

  def test_the_margin_shifts_the_gap(self):
    with_margin = value_and_grad(SCORES[:3], [[1, 0, 0]], step=100, margin=.3)
    shifted = value_and_grad(SCORES[:3] - jnp.array([.3, 0, 0]), [[1, 0, 0]])
    np.testing.assert_allclose(with_margin[0], shifted[0], rtol=1e-5)
    without = value_and_grad(SCORES[:3], [[1, 0, 0]])
    assert abs(with_margin[1][0]) > abs(without[1][0])

  def test_hot_it_is_blind_to_the_scores(self):
    for scores in (SCORES[3:6], SCORES[3:6] * 3):
      _, grad = value_and_grad(scores, [[1, 1, 0]], temperature=1e4)
      np.testing.assert_allclose(grad * 1e4, [-.25, -.25, .5], rtol=1e-3)
    _, grad = value_and_grad(SCORES[:3], [[1, 0, 0]], temperature=1e4)
    np.testing.assert_allclose(grad * 1e4, [-2 / 3, 1 / 3, 1 / 3], rtol=1e-3)

  def test_gradient_against_finite_differences(self):
    loss = jax.jit(lambda s: objective(s, step=30)[0])
    step, (_, grad) = .002, value_and_grad(SCORES, step=30)
    for i in range(8):
      numeric = (loss(SCORES.at[i].add(step)) - loss(SCORES.at[i].add(-step))) / (2 * step)
      np.testing.assert_allclose(grad[i], numeric, atol=5e-3)

  def test_empty_responses_leave_their_group(self):
    value, grad = value_and_grad(SCORES[:3], [[1, 0, 0]], lengths=[2, 0, 1])
    np.testing.assert_allclose(value, np.log1p(np.e), rtol=1e-5)
    assert grad[1] == 0
    value, grad = value_and_grad(SCORES[:3], [[1, 0, 0]], lengths=[0, 2, 1])
    assert value == 0 and (grad == 0).all()

  def test_ungraded_responses_leave_their_group(self):
    value, grad = value_and_grad(SCORES[:3], [[1, None, 0]])
    np.testing.assert_allclose(value, np.log1p(np.e), rtol=1e-5)
    assert grad[1] == 0

  def test_long_gaps_are_finite(self):
    value, grad = value_and_grad(jnp.array([-1e4, 0., -1e4]), [[1, 0, 0]], temperature=.01)
    assert np.isfinite(value) and np.isfinite(grad).all()

  def test_grpo_is_the_gap_of_the_means(self):
    """Binary rewards: (1/G) sum A s = sqrt(p (1 - p)) (mean s+ - mean s-)."""
    rollout = testing.make_rollout([[1, 0, 0]])
    lhs = jnp.mean(advantages.grpo(rollout) * SCORES[:3])
    _, metrics = objective(SCORES[:3], [[1, 0, 0]])
    np.testing.assert_allclose(
        lhs, np.sqrt(2 / 9) * metrics['score_gap'][0, 0], rtol=1e-4)

  @pytest.mark.parametrize('options', [
      {'temperature': 0.}, {'margin': -.1}, {'ramp_steps': 0}])
  def test_out_of_range(self, options):
    with pytest.raises(ValueError, match='conspo'):
      objective(SCORES, **options)


def test_two_sided_tokens():
  rollout = testing.make_rollout(
      [[1, 0, None], [1, 1], [0, 1]], lengths=[2, 1, 2, 1, 1, 0, 2], padding=1)
  expected = np.zeros((8, 2))
  expected[0], expected[1, 0] = 1, 1
  np.testing.assert_array_equal(masks.two_sided_tokens(rollout), expected)
  strict = functools.partial(masks.two_sided_tokens, right_above=2.)
  assert not strict(rollout).any()
