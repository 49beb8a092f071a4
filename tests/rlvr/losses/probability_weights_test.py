"""Weights that read probabilities: DPPO's masks and ReCo's variance ratio, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import losses
from rlvr import testing
from rlvr.losses import probability_weights as parts


def weigh(part, p, old_p, advantages, **options):
  """The weight of single tokens of probability p, old_p."""
  logp, old = (jnp.log(jnp.asarray(x, jnp.float32))[None] for x in (p, old_p))
  cell = testing.make_cell(jnp.asarray(advantages, jnp.float32)[None], old_logp=old)
  return np.asarray(part(testing.make_output(logp), cell, **options))[0]


class TestDppo:

  def test_total_variation(self):
    """A rare token may grow tenfold; a likely one is held at a change of 0.2."""
    weight = weigh(parts.dppo_tv, [.1, .9, .9, .3], [.01, .65, .65, .55], [1, 1, -1, -1])
    np.testing.assert_allclose(weight, [10, 0, .9 / .65, 0], rtol=1e-5)

  def test_divergence(self):
    """KL(.65 || .9) = .65 log(.65/.9) + .35 log(.35/.1) = .227."""
    up = .65 * np.log(.65 / .9) + .35 * np.log(.35 / .1)
    for limit, expected in ((up + 1e-3, .9 / .65), (up - 1e-3, 0.)):
      weight = weigh(parts.dppo_kl, [.9, .9], [.65, .65], [1, -1], high=limit, low=0.)
      np.testing.assert_allclose(weight, [expected, .9 / .65], rtol=1e-4)

  def test_the_ratio_is_capped(self):
    for part in (parts.dppo_tv, parts.dppo_kl):
      np.testing.assert_allclose(
          weigh(part, [.1], [1e-4], [1], cap=3., low=9., high=9.), [3], rtol=1e-5)

  @pytest.mark.parametrize('options', [{'low': -.1}, {'high': -.1}, {'cap': .5}])
  def test_out_of_range(self, options):
    for part in (parts.dppo_tv, parts.dppo_kl):
      with pytest.raises(ValueError, match=part.__name__):
        weigh(part, [.5], [.5], [1], **options)


class TestRecoScale:
  WIDE = dict(low=9., high=99.)

  def test_worked(self):
    scale = weigh(parts.reco_scale, [.6, .99, .5], [.5, .9, .95], [1, 1, 1], **self.WIDE)
    np.testing.assert_allclose(scale, [.96, .11, 5.26316], rtol=1e-4)

  def test_falls_while_the_ratio_rises(self):
    p = np.linspace(.55, .99, 12)
    scale = weigh(parts.reco_scale, p, np.full(12, .5), np.ones(12), **self.WIDE)
    assert (np.diff(scale) < 0).all()

  def test_certain_tokens(self):
    """p and p_old near 1 hit the floor: 1; p_old near 1 and p = .5 the cap."""
    scale = weigh(parts.reco_scale, [1, .5], [1, .999999], [1, -1], **self.WIDE)
    np.testing.assert_allclose(scale, [1, 10], rtol=1e-3)

  def test_is_cut_where_ppo_is(self):
    scale = weigh(parts.reco_scale, [.6, .6, .3, .3], [.4, .4, .5, .5], [1, -1, 1, -1])
    np.testing.assert_array_equal(scale != 0, [False, True, True, False])

  def test_never_pushes_against_the_advantage(self):
    p = np.linspace(.02, .98, 9)
    logp = jnp.log(jnp.asarray(np.stack([p, p]), jnp.float32))
    cell = testing.make_cell([1., -1], mask=jnp.ones((2, 9)), old_logp=jnp.log(.5) + 0 * logp)
    grad = jax.grad(lambda x: losses.score_function(
        testing.make_output(x), cell, {}, weight=parts.reco_scale)[0].sum())(logp)
    assert (grad[0] <= 0).all() and (grad[1] >= 0).all() and (grad != 0).any()

  @pytest.mark.parametrize('options', [
      {'low': -.1}, {'high': -.1}, {'floor': 0.}, {'floor': 1.}, {'cap': .5}])
  def test_out_of_range(self, options):
    with pytest.raises(ValueError, match='reco_scale'):
      weigh(parts.reco_scale, [.5], [.5], [1], **options)
