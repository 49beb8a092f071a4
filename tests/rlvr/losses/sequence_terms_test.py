"""Terms of a whole response: GMPO, TBPO, and their reductions to GSPO, GRPO and PPO."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import aggregate
from rlvr import corrections
from rlvr import losses
from rlvr import testing
from rlvr.losses import clips
from rlvr.losses import ratios

LOG_RATIO = np.array([[.3, -.1, .1], [-.2, .1, 0]])
MASK = np.array([[1., 1, 1], [1, 1, 0]])
WIDE = functools.partial(clips.ppo_clip, low=.9, high=9.)


def run(log_ratio, advantages, ratio, clip, *, mask=None, correction=None):
  """Loss and gradient of the surrogate at logp -1, averaged as GSPO does."""
  log_ratio = jnp.asarray(log_ratio, jnp.float32)
  mask = jnp.ones_like(log_ratio) if mask is None else jnp.asarray(mask, jnp.float32)
  cell = testing.make_cell(
      jnp.asarray(advantages, jnp.float32), mask=mask, old_logp=-1 - log_ratio,
      correction=correction, weigh=aggregate.seq_mean_token_mean)

  def loss(logp):
    terms, _ = losses.surrogate(testing.make_output(logp), cell, {}, ratio=ratio, clip=clip)
    return testing.objective(terms, cell.weights['loss'])

  value, grad = jax.value_and_grad(loss)(jnp.full(log_ratio.shape, -1.0))
  return float(value), np.asarray(grad), loss


def numeric(loss, shape, step=.004):
  logp = jnp.full(shape, -1.0)
  return np.array([
      (loss(logp.at[i].add(step)) - loss(logp.at[i].add(-step))) / (2 * step)
      for i in np.ndindex(*shape)]).reshape(shape)


class TestGmpo:

  def _run(self, log_ratio, advantages, low=.4, high=.4, mask=None):
    ratio = functools.partial(ratios.gmpo_ratio, low=low, high=high)
    return run(log_ratio, advantages, ratio, clips.no_clip, mask=mask)

  def test_worked(self):
    """Card: low .15, high .2: (-e^(.2/3) + e^(-.025)) / 2; clipped tokens have no gradient."""
    value, grad, loss = self._run(LOG_RATIO, [1., -1], .15, .2, MASK)
    good, bad = np.exp(.2 / 3), np.exp(-.025)
    np.testing.assert_allclose(value, (bad - good) / 2, rtol=1e-4)
    np.testing.assert_allclose(
        grad, [[0, -good / 6, -good / 6], [0, bad / 4, 0]], rtol=1e-5)
    np.testing.assert_allclose(grad, numeric(loss, (2, 3)), atol=2e-4)

  def test_length_one_is_ppo_in_its_band(self):
    band = functools.partial(clips.ppo_clip, low=1 - np.exp(-.4), high=np.exp(.4) - 1)
    log_ratio = np.array([[.3], [.5], [-.5], [.3], [.5], [-.5]])
    advantages = [1., 1, 1, -1, -1, -1]
    ours = self._run(log_ratio, advantages)
    ppo = run(log_ratio, advantages, ratios.token_ratio, band)
    np.testing.assert_allclose(ours[0], ppo[0], rtol=1e-5)
    np.testing.assert_allclose(ours[1], ppo[1], rtol=1e-5)

  def test_inside_its_band_it_is_gspo_unclipped(self):
    ours = self._run(LOG_RATIO, [1., -1], mask=MASK)
    gspo = run(LOG_RATIO, [1., -1], ratios.sequence_ratio, clips.no_clip, mask=MASK)
    np.testing.assert_allclose(ours[1], gspo[1], rtol=1e-6)

  def test_order_of_tokens_does_not_matter(self):
    order = [2, 0, 1]
    first = self._run(LOG_RATIO, [1., -1], .15, .2)
    moved = self._run(LOG_RATIO[:, order], [1., -1], .15, .2)
    np.testing.assert_allclose(moved[0], first[0], rtol=1e-6)
    np.testing.assert_allclose(moved[1], first[1][:, order], rtol=1e-6)

  def test_no_advantage_and_no_tokens(self):
    value, grad, _ = self._run(LOG_RATIO, [0., 1], mask=[[1, 1, 1], [0, 0, 0]])
    assert value == 0 and (grad == 0).all()

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}])
  def test_out_of_range(self, options):
    with pytest.raises(ValueError, match='gmpo_ratio'):
      self._run(LOG_RATIO, [1., 1], **options)


class TestGspo:

  def test_gradient_against_finite_differences(self):
    _, grad, loss = run(LOG_RATIO, [1., -1], ratios.sequence_ratio, WIDE, mask=MASK)
    np.testing.assert_allclose(grad, numeric(loss, (2, 3)), atol=2e-4)

  def test_a_constant_advantage_makes_the_token_variant_equal(self):
    for clip in (WIDE, functools.partial(clips.ppo_clip, low=.02, high=.2)):
      whole = run(LOG_RATIO, [1., -1], ratios.sequence_ratio, clip, mask=MASK)
      token = run(LOG_RATIO, [1., -1], ratios.sequence_token_ratio, clip, mask=MASK)
      np.testing.assert_allclose(token[0], whole[0], rtol=1e-6)
      np.testing.assert_allclose(token[1], whole[1], rtol=1e-6)


class TestTbpo:
  CLIP = functools.partial(clips.tbpo_clip, low=.1, high=.2)

  def _run(self, log_ratio, advantages, clip=CLIP, **options):
    return run(log_ratio, advantages, ratios.sequence_ratio, clip, **options)

  def test_worked(self):
    """Card: r = 1.5, 1.5, .8, .8 with A = +, -, +, -; GSPO differs in the second row only."""
    log_ratio = np.log([[1.5] * 2, [1.5] * 2, [.8] * 2, [.8] * 2])
    advantages = [1., -1, 1, -1]
    value, grad, _ = self._run(log_ratio, advantages)
    np.testing.assert_allclose(value, .025, rtol=1e-4)
    np.testing.assert_allclose(grad[:, 0], [0, 0, -.1, 0], rtol=1e-5)
    gspo = self._run(log_ratio, advantages, functools.partial(clips.ppo_clip, low=.1, high=.2))
    np.testing.assert_allclose(gspo[1][:, 0], [0, .1875, -.1, 0], rtol=1e-5)

  def test_inside_the_band_it_is_gspo(self):
    log_ratio = np.log([[1.1, 1.05], [.95, 1.1]])
    ours = self._run(log_ratio, [1., -1])
    gspo = self._run(log_ratio, [1., -1], functools.partial(clips.ppo_clip, low=.1, high=.2))
    np.testing.assert_array_equal(ours[1], gspo[1])
    assert ours[0] == gspo[0]
    np.testing.assert_allclose(ours[1], numeric(ours[2], (2, 2)), atol=2e-4)

  def test_on_policy(self):
    _, grad, _ = self._run(np.zeros((2, 3)), [1., -1])
    np.testing.assert_allclose(grad, np.array([[-1.], [1]]) / 6 * np.ones(3), rtol=1e-6)

  def test_its_force_is_bounded(self):
    for r in np.linspace(.5, 6, 23):
      _, grad, _ = self._run(np.full((2, 2), np.log(r)), [1., -1])
      assert (np.abs(grad).sum(axis=1) <= 1.2 / 2 + 1e-6).all()

  def test_one_token_of_forty_nats_is_dropped_where_gspo_pushes(self):
    """20 of the 40 nats are left by the clamp of a token: GSPO pushes with e."""
    log_ratio = np.zeros((1, 20))
    log_ratio[0, 7] = 40.
    assert (self._run(log_ratio, [-1.])[1] == 0).all()
    gspo = self._run(log_ratio, [-1.], functools.partial(clips.ppo_clip, low=.1, high=.2))
    np.testing.assert_allclose(gspo[1][0, 0], np.e / 20, rtol=1e-4)

  def test_outside_the_mismatch_band_nothing_is_left_but_the_divisor(self):
    old = jnp.full((2, 2), -1.)
    weight = corrections.geometric_masked(
        old, old - jnp.array([[.1], [3.]]), jnp.ones((2, 2)), low=.5, high=2.)
    value, grad, _ = self._run(np.zeros((2, 2)), [1., 1], correction=weight)
    np.testing.assert_allclose(value, -np.exp(.1) / 2, rtol=1e-5)
    np.testing.assert_allclose(grad, [[-np.exp(.1) / 4] * 2, [0, 0]], rtol=1e-5)

  def test_strict_drops_good_responses_below_the_band_too(self):
    log_ratio = np.log([[.8, .8]])
    assert (self._run(log_ratio, [1.])[1] != 0).all()
    strict = functools.partial(clips.tbpo_clip, low=.1, high=.2, strict=True)
    assert (self._run(log_ratio, [1.], strict)[1] == 0).all()

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}])
  def test_out_of_range(self, options):
    with pytest.raises(ValueError, match='tbpo_clip'):
      clips.tbpo_clip(jnp.ones(1), jnp.ones(1), **options)
