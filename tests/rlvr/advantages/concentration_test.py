"""ReCo's response weight, by hand, and what it must do to a group."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing
from rlvr.advantages import concentration


def make_rollout(probabilities, rewards=None, length=3):
  """One group; each token of a response has its probability."""
  rewards = [1, 0, 0, 1] if rewards is None else rewards
  old = jnp.log(jnp.asarray(probabilities, jnp.float32))
  return testing.make_rollout(
      [rewards], lengths=[length] * len(rewards),
      old_logp=jnp.broadcast_to(old[:, None], (len(rewards), length)))


def weight(rollout, kind='raw', prob='geo', cap=1e9):
  return np.asarray(
      concentration.response_weight(rollout, kind=kind, prob=prob, cap=cap, part='test'))


class TestResponseWeight:
  P = (.5, .9, 1., 1e-9)

  def test_worked(self):
    rollout = make_rollout(self.P)
    np.testing.assert_allclose(weight(rollout)[:3], [.5, .27778, .25], rtol=1e-4)
    np.testing.assert_allclose(
        weight(rollout, 'presence'), [.46875, .27775, .25, 1], rtol=1e-4)

  def test_expected_contribution(self):
    """raw: G p w = 1; presence: the chance to appear, 1 - (1 - p)^G; falling in p."""
    p = np.array([.1, .3, .6, .95])
    rollout = make_rollout(p)
    np.testing.assert_allclose(4 * p * weight(rollout), 1, rtol=1e-5)
    present = weight(rollout, 'presence')
    np.testing.assert_allclose(4 * p * present, 1 - (1 - p)**4, rtol=1e-5)
    assert (np.diff(present) < 0).all()

  def test_the_sum_is_capped(self):
    rollout = make_rollout([.5, .5, 1e-9, .5], length=3)
    np.testing.assert_allclose(
        weight(rollout, prob='seq', cap=50.), [2, 2, 50, 2], rtol=1e-5)
    assert np.isfinite(weight(rollout, prob='seq')).all()

  def test_an_empty_response_has_probability_one(self):
    rollout = testing.make_rollout([[1, 0]], lengths=[0, 2])
    np.testing.assert_allclose(weight(rollout)[0], .5)


class TestRecoWeight:

  def test_equal_responses_are_scaled_alike(self):
    rollout = make_rollout([.4] * 4)
    plain = advantages.grpo(rollout)
    scaled = concentration.reco_weight(plain, rollout)
    np.testing.assert_allclose(scaled, plain / (4 * .4), rtol=1e-5)
    np.testing.assert_allclose(
        concentration.reco_weight(plain, rollout, renorm=True), plain, rtol=1e-5)

  def test_per_token(self):
    rollout = make_rollout([.5, .9, 1., .2])
    plain = jnp.ones((4, 3))
    np.testing.assert_allclose(
        concentration.reco_weight(plain, rollout), weight(rollout)[:, None] * np.ones(3))

  def test_what_it_refuses(self):
    rollout = make_rollout([.5] * 4)
    plain = advantages.grpo(rollout)
    for options in ({'kind': 'x'}, {'prob': 'x'}, {'cap': 0.}):
      with pytest.raises(ValueError, match='reco_weight'):
        concentration.reco_weight(plain, rollout, **options)
    with pytest.raises(ValueError, match='score_first'):
      concentration.reco_weight(plain, rollout.replace(old_logp=None))


class TestWeightedGrpo:

  def test_weighted_contributions_cancel(self):
    for kind in concentration.KINDS:
      rollout = make_rollout([.5, .9, .3, .7])
      adv = advantages.weighted_grpo(rollout, kind=kind)
      total = jnp.sum(concentration.reco_weight(adv, rollout, kind=kind))
      np.testing.assert_allclose(total, 0, atol=1e-5)

  def test_equal_weights_are_grpo(self):
    rollout = make_rollout([.4] * 4)
    np.testing.assert_allclose(
        advantages.weighted_grpo(rollout), advantages.grpo(rollout), rtol=1e-5)

  def test_all_equal_is_zero(self):
    rollout = make_rollout([.5, .9, .3, .7], [.7] * 4)
    np.testing.assert_array_equal(advantages.weighted_grpo(rollout), 0.0)
