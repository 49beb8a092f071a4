"""AIS: the card's numbers, the signs of its rule, and the bias that it trades."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import corrections
from rlvr.corrections import adaptive

MASK = jnp.ones((2, 2))
ROLLED = jnp.full((2, 2), -2.)
OLD = ROLLED + jnp.log(jnp.array([[2., 1], [1, 1]]))
K01 = functools.partial(adaptive.adaptive_mixing, scale=.1)


class TestDiagnostics:

  def test_worked(self):
    ess, kl, cv = adaptive.diagnostics(OLD, ROLLED, MASK)
    np.testing.assert_allclose([ess, kl, cv], [.9, (1 - np.log(2)) / 4, .3464102], rtol=1e-5)
    np.testing.assert_allclose(kl, .0767132, rtol=1e-5)

  def test_nothing_to_measure(self):
    for mask in (jnp.zeros((2, 2)), jnp.zeros((0, 2))):
      shape = mask.shape
      np.testing.assert_array_equal(
          adaptive.diagnostics(jnp.full(shape, jnp.nan), jnp.zeros(shape), mask), [1, 0, 0])
    assert adaptive.diagnostics(OLD[:1], ROLLED[:1], MASK[:1])[0] == 1  # one response

  def test_long_responses_do_not_overflow(self):
    old = jnp.zeros((3, 400)).at[0].set(-1.)
    ess, _, _ = adaptive.diagnostics(old, jnp.full((3, 400), -20.), jnp.ones((3, 400)))
    np.testing.assert_allclose(ess, 2 / 3, rtol=1e-5)

  def test_on_one_level_ess_and_cv_are_one_number(self):
    log_weight = jnp.asarray(np.random.default_rng(0).normal(size=50), jnp.float32)
    where = jnp.arange(50) < 40
    ess = adaptive.weight_ess(log_weight, where)
    cv = adaptive.weight_cv(jnp.exp(log_weight), where)
    np.testing.assert_allclose(ess, 1 / (1 + cv ** 2), rtol=1e-4)


class TestMixing:

  def test_zero_iff_there_is_no_divergence(self):
    assert adaptive.adaptive_mixing(jnp.float32(1), jnp.float32(0), jnp.float32(0)) == 0
    assert adaptive.adaptive_mixing(jnp.float32(1), jnp.float32(1e-6), jnp.float32(0)) > 0

  def test_signs_and_bounds(self):
    rng = np.random.default_rng(1)
    for _ in range(50):
      ess, kl, cv = jnp.asarray(rng.uniform([0, 0, 0], [1, .1, 5]), jnp.float32)
      at = lambda e, k, c: float(adaptive.adaptive_mixing(e, k, c))
      alpha = at(ess, kl, cv)
      assert 0 <= alpha <= 1
      assert at(ess + .1, kl, cv) >= alpha and at(ess, kl + .01, cv) >= alpha >= at(
          ess, kl, cv + .1)
    assert at(jnp.float32(.1), kl, cv) == at(jnp.float32(.5), kl, cv)  # the floor

  @pytest.mark.parametrize('options', [{'scale': 0.}, {'cv_ref': 0.}, {'ess_floor': 2.}])
  def test_options_out_of_range(self, options):
    with pytest.raises(ValueError, match='adaptive_mixing'):
      adaptive.adaptive_mixing(jnp.ones(()), jnp.ones(()), jnp.ones(()), **options)


class TestAis:

  def test_worked(self):
    np.testing.assert_allclose(
        corrections.ais(OLD, ROLLED, MASK, mixing=K01), [[1.4304387, 1], [1, 1]], rtol=1e-5)
    assert float(adaptive.readings(OLD, ROLLED, MASK, mixing=K01)['ais_alpha']) == pytest.approx(
        .4304387, rel=1e-5)

  def test_between_one_and_the_weight_and_linear_in_alpha(self):
    rng = np.random.default_rng(2)
    old = ROLLED + jnp.asarray(rng.normal(size=(2, 2)), jnp.float32)
    of = lambda alpha: np.asarray(corrections.ais(
        old, ROLLED, MASK, mixing=functools.partial(adaptive.fixed_mixing, alpha=alpha)))
    full = of(1.)
    np.testing.assert_allclose(
        full, corrections.token_truncated(old, ROLLED, MASK), rtol=1e-6)
    np.testing.assert_array_equal(of(0.), 1.)
    np.testing.assert_allclose(of(.3), .7 + .3 * full, rtol=1e-6)
    mixed = np.asarray(corrections.ais(old, ROLLED, MASK))
    assert ((mixed >= np.minimum(1, full) - 1e-6) & (mixed <= np.maximum(1, full) + 1e-6)).all()

  def test_the_same_numerics_give_one_to_the_bit(self):
    np.testing.assert_array_equal(corrections.ais(OLD, OLD, MASK), 1.)

  def test_a_row_with_a_value_that_is_no_number_counts_as_agreeing(self):
    broken = OLD.at[0, 1].set(jnp.nan)
    np.testing.assert_array_equal(corrections.ais(broken, ROLLED, MASK), 1.)
    readings = adaptive.readings(broken, ROLLED, MASK)
    assert float(readings['ais_missing']) == 1 and float(readings['ais_alpha']) == 0
    off = adaptive.readings(broken, ROLLED, MASK.at[0, 1].set(0.))
    assert float(off['ais_missing']) == 0 and float(off['ais_alpha']) > 0

  def test_no_gradient(self):
    grad = jax.grad(lambda old: jnp.sum(corrections.ais(old, ROLLED, MASK)))(OLD)
    np.testing.assert_array_equal(grad, 0.)

  def test_bandit_bias_is_one_minus_alpha_of_the_uncorrected(self):
    pi, mu, reward = (np.array(x) for x in ([.5, .3, .2], [.42, .3, .28], [1, -.2, -.8]))
    score = np.array([1., 0, 0]) - pi[0]  # d log pi / d first logit
    def moments(alpha):
      mixing = functools.partial(adaptive.fixed_mixing, alpha=alpha)
      weight = np.asarray(corrections.ais(
          jnp.log(jnp.array(pi))[None], jnp.log(jnp.array(mu))[None], jnp.ones((1, 3)), cap=1e6,
          mixing=mixing))[0]
      sample = weight * reward * score
      mean = (mu * sample).sum()
      return mean, (mu * sample ** 2).sum() - mean ** 2
    truth = (pi * reward * score).sum()
    bias = lambda alpha: abs(moments(alpha)[0] - truth)
    assert bias(0.) > 1e-3
    for alpha in (.25, .5, 1.):
      assert bias(alpha) == pytest.approx((1 - alpha) * bias(0.), abs=1e-6)
    variances = [moments(alpha)[1] for alpha in (0., .5, 1.)]
    assert variances == sorted(variances)

  def test_cap_below_one_is_refused(self):
    with pytest.raises(ValueError, match='ais: cap=0.5'):
      corrections.ais(OLD, ROLLED, MASK, cap=.5)


class TestFixedMixing:

  def test_out_of_range(self):
    with pytest.raises(ValueError, match='alpha=1.5'):
      adaptive.fixed_mixing(jnp.ones(()), jnp.ones(()), jnp.ones(()), alpha=1.5)
