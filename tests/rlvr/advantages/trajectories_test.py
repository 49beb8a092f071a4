"""Constant step normaliser: worked values, its pressure on failures, and the gate of its loss."""

import functools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import corrections
from rlvr import losses
from rlvr import testing

PLAIN = functools.partial(advantages.grpo, eps=0.)
PART = functools.partial(advantages.konst_len, base=PLAIN)
MEAN = functools.partial(advantages.step_mean, base=PLAIN)


def make(steps, rewards, **fields):
  """One task; trajectory i has steps[i] rows that all carry rewards[i]."""
  flat = [r for r, num in zip(rewards, steps, strict=True) for _ in range(num)]
  ids = [i for i, num in enumerate(steps) for _ in range(num)]
  return testing.make_rollout([flat], trajectory=jnp.array(ids), **fields)


class KonstLenTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make([2, 4], [1, 0])
    np.testing.assert_allclose(self.variant(PART)(rollout), [.1] * 2 + [-.1] * 4, rtol=1e-6)
    np.testing.assert_allclose(self.variant(MEAN)(rollout), [.5] * 2 + [-.25] * 4, rtol=1e-6)

  def test_pressure_on_a_long_failure(self):
    rollout = make([2, 4], [1, 0])
    np.testing.assert_allclose(PART(rollout)[2:].sum(), -.4, rtol=1e-6)
    np.testing.assert_allclose(MEAN(rollout)[2:].sum(), -1, rtol=1e-6)

  def test_ratio_of_success_to_failure_a_step(self):
    """Mean steps 5.1 and 12.5: 2.45 under 1/|tau|, 1 under 1/k."""
    rollout = make([51, 125], [1, 0])
    ratio = lambda part: -part(rollout)[0] / part(rollout)[-1]
    np.testing.assert_allclose((ratio(MEAN), ratio(PART)), (12.5 / 5.1, 1), rtol=1e-5)
    assert abs(12.5 / 5.1 - 2.45) < .005

  def test_one_step_and_k_of_one_is_grpo(self):
    rollout = make([1, 1, 1], [1, 0, 0])
    np.testing.assert_array_equal(advantages.konst_len(rollout, k=1.), advantages.grpo(rollout))
    single = testing.make_rollout([[1, 0, 0], [1, 0]])
    np.testing.assert_array_equal(advantages.konst_len(single, k=1.), advantages.grpo(single))

  def test_homogeneity(self):
    rollout = make([2, 4, 1], [1, 0, .5])
    np.testing.assert_allclose(PART(rollout, k=5.), PART(rollout, k=1.) / 5, rtol=1e-6)

  def test_another_group_changes_nothing(self):
    rollout = testing.make_rollout([[1, 1, 0], [5, 5, 2]], trajectory=jnp.array([0, 0, 1, 0, 0, 1]))
    alone = testing.make_rollout([[1, 1, 0]], trajectory=jnp.array([0, 0, 1]))
    np.testing.assert_array_equal(PART(rollout)[:3], PART(alone))

  def test_a_longer_failure_leaves_its_old_rows_alone(self):
    short, long = make([2, 2], [1, 0]), make([2, 3], [1, 0])
    np.testing.assert_array_equal(PART(long)[:4], PART(short))
    np.testing.assert_allclose(MEAN(long)[3], 2 / 3 * MEAN(short)[3], rtol=1e-6)

  def test_empty_and_ungraded_rows(self):
    rollout = testing.make_rollout(
        [[1, 1, None, 0, 0]], lengths=[0, 1, 2, 2, 2], trajectory=jnp.array([0, 0, 0, 1, 1]))
    np.testing.assert_allclose(PART(rollout), [.1, .1, 0, -.1, -.1], rtol=1e-6)
    np.testing.assert_allclose(MEAN(rollout), [1 / 3, 1 / 3, 0, -.5, -.5], rtol=1e-6)

  def test_refusals(self):
    rollout = make([1, 2], [1, 0])
    with pytest.raises(ValueError, match='k=0'):
      advantages.konst_len(rollout, k=0.)
    with pytest.raises(ValueError, match='one advantage a row'):
      advantages.konst_len(rollout, base=advantages.eapo)


class DecoupledLossTest(chex.TestCase):
  """The loss of the main run: policy over sampler gated at 5, dual clip at 3."""

  def _loss(self, gap):
    """With the current policy at the proximal one, and that e^gap times the sampler."""
    adv = PART(make([2, 4], [1, 0]))
    old = jnp.full((6, 2), -1.)
    mask = jnp.ones((6, 2))
    weight = corrections.token_masked(old, old - gap, mask, low=0., high=5.)
    cell = testing.make_cell(adv, mask=mask, old_logp=old, correction=weight)
    clip = functools.partial(losses.clips.ppo_clip, dual=3.)
    terms, metrics = losses.surrogate(testing.make_output(old), cell, {}, clip=clip)
    return testing.objective(terms, cell.weights['loss']), metrics

  def test_half_the_sampler_is_twice_the_loss_and_beyond_the_cap_is_none(self):
    on_policy, _ = self._loss(0.)
    twice, metrics = self._loss(np.log(2.))
    np.testing.assert_allclose(on_policy, .2 / 6, rtol=1e-5)
    np.testing.assert_allclose(twice, 2 * on_policy, rtol=1e-5)
    np.testing.assert_array_equal(metrics['clip_share'], 0)
    assert self._loss(np.log(6.))[0] == 0
