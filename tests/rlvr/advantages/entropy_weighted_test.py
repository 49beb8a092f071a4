"""EAPO: worked weights, conservation, monotony, schedule."""

import functools
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing
from rlvr.advantages import entropy_weighted

PLAIN = functools.partial(advantages.grpo, eps=0.)
PART = functools.partial(advantages.eapo, base=PLAIN)
NAN = float('nan')


def given(values):
  """A base that gives these advantages."""
  return lambda rollout: jnp.asarray(values, jnp.float32)


def ten():
  """Entropies 0 ... 10 over rows of four, so that q10 = 1 and q90 = 9."""
  entropy = jnp.array([[0., 1, 5, NAN], [9, 2, 3, 4], [6, 7, 8, 10]])
  return testing.make_rollout([[1, 0, 0]], lengths=[3, 4, 4], entropy=entropy)


class EapoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    """h = 0, 0, .5 and 1, .125, .25, .375 between the quantiles 1 and 9."""
    part = functools.partial(advantages.eapo, base=given([2., -2, 0]))
    result = self.variant(part)(ten())
    raw = np.array([1, 1, 2])
    np.testing.assert_allclose(result[0], [*(2 * raw * 3 / 4), 0], rtol=1e-5)
    raw = 4. ** -np.array([1, .125, .25, .375])
    np.testing.assert_allclose(result[1], -2 * raw * 4 / raw.sum(), rtol=1e-5)
    np.testing.assert_array_equal(result[2], 0)

  def test_the_weights_of_the_card(self):
    """h = 0, .5, 1: 3/7, 6/7, 12/7 on a success and the reverse on a failure."""
    entropy = jnp.array([[1., 5, 9], [1, 5, 9]])
    filler = jnp.array([[0., 0, 10], [0, 10, 10], [10, NAN, NAN]])  # q10 = 0 and q90 = 10
    rollout = testing.make_rollout(
        [[1, 1, 0, 0, 0]], lengths=[3, 3, 3, 3, 1], entropy=jnp.concatenate([entropy, filler]))
    rollout = rollout.replace(entropy=rollout.entropy.at[:2].set(jnp.array([0., 5, 10])))
    result = advantages.eapo(rollout, base=given([2., -2, 0, 0, 0]))
    np.testing.assert_allclose(result[0], 2 * np.array([3, 6, 12]) / 7, rtol=1e-5)
    np.testing.assert_allclose(result[1], -2 * np.array([12, 6, 3]) / 7, rtol=1e-5)

  def test_credit_is_moved_and_not_created(self):
    rng = np.random.default_rng(0)
    rollout = testing.make_rollout(
        [[1, 0, 1, 0], [1, 1, 0]], lengths=[6, 1, 3, 5, 2, 4, 0])
    rollout = rollout.replace(entropy=jnp.asarray(rng.gamma(1., size=(7, 6)), jnp.float32))
    adv = np.asarray(PLAIN(rollout))
    result = np.asarray(PART(rollout))
    np.testing.assert_allclose(
        result.sum(1), adv * np.asarray(rollout.mask).sum(1), rtol=1e-5, atol=1e-6)
    mask = np.asarray(rollout.mask) != 0
    assert (result[~mask] == 0).all() and (np.sign(result)[mask] == np.sign(
        np.broadcast_to(adv[:, None], mask.shape))[mask]).all()
    for row in range(6):
      size = np.abs(result[row][mask[row]])
      assert size.max() <= 4.0001 * size.min()
      along = size[np.argsort(np.asarray(rollout.entropy)[row][mask[row]])]
      assert (np.diff(along if adv[row] > 0 else along[::-1]) >= -1e-6).all()

  def test_no_weight_where_entropy_says_nothing(self):
    rollout = ten()
    plain = PLAIN(rollout)[:, None] * rollout.mask
    np.testing.assert_array_equal(PART(rollout, kappa=0.), plain)
    flat = rollout.replace(entropy=jnp.full_like(rollout.entropy, .7))
    np.testing.assert_array_equal(PART(flat), plain)

  def test_units_of_entropy_do_not_matter(self):
    rollout = ten()
    moved = rollout.replace(entropy=3 * rollout.entropy + 2)
    np.testing.assert_allclose(PART(moved), PART(rollout), rtol=1e-5)

  def test_padding_stays_out_of_the_quantiles(self):
    rollout = ten()
    high = rollout.replace(entropy=jnp.where(rollout.mask != 0, rollout.entropy, 1e9))
    np.testing.assert_array_equal(PART(high), PART(rollout))

  def test_schedule(self):
    rollout = ten()
    at = lambda step: rollout.replace(extras={'step': jnp.full(3, step, jnp.int32)})
    part = functools.partial(PART, decay_steps=10)
    np.testing.assert_allclose(part(at(0)), PART(rollout), rtol=1e-6)
    np.testing.assert_allclose(part(at(5)), PART(rollout, kappa=math.log(2.)), rtol=1e-5)
    for step in (10, 11):
      np.testing.assert_allclose(part(at(step)), PART(rollout, kappa=0.), rtol=1e-6)

  def test_a_large_kappa_does_not_overflow(self):
    result = PART(ten(), kappa=500.)
    assert np.isfinite(result).all()
    np.testing.assert_allclose(result.sum(1), PLAIN(ten()) * jnp.array([3, 4, 4]), rtol=1e-5)

  def test_no_gradient_through_entropy(self):
    rollout = ten()
    grad = jax.grad(lambda entropy: jnp.sum(
        jnp.square(PART(rollout.replace(entropy=entropy)))))(rollout.entropy)
    np.testing.assert_array_equal(grad, 0)

  def test_refusals(self):
    rollout = ten()
    for options, message in ((dict(kappa=-1.), 'kappa=-1'), (dict(kappa=NAN), 'kappa=nan'),
                             (dict(decay_steps=-1), 'decay_steps=-1'),
                             (dict(base=entropy_weighted.eapo), 'one advantage a response'),
                             (dict(decay_steps=5), "extras\\['step'\\]")):
      with pytest.raises(ValueError, match=message):
        advantages.eapo(rollout, **options)
    with pytest.raises(ValueError, match='score_first'):
      advantages.eapo(rollout.replace(entropy=None))
