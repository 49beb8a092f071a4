"""Discrepancy apart from staleness: the card's numbers and identities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import corrections
from rlvr import losses
from rlvr import testing

MU = jnp.full((1, 4), -2.)


def loss_of(log_rd, log_rs, advantages):
  """(total, terms, metrics) of the clipped surrogate on tokens with these log-ratios."""
  prox = MU + log_rd
  mask = jnp.ones(MU.shape)
  cell = testing.make_cell(
      advantages, mask=mask, old_logp=prox, rollout_logp=MU,
      correction=corrections.decoupled(prox, MU, mask))
  terms, metrics = losses.surrogate(testing.make_output(prox + log_rs), cell, {})
  return testing.objective(terms, cell.weights['loss']), terms, metrics


class TestDecoupled:
  RD = jnp.log(jnp.array([[1, 1.5, 3, 1]]))
  RS = jnp.log(jnp.array([[1.1, 1.3, 1, .5]]))
  A = jnp.array([[1., 1, 1, -1]])

  def test_worked(self):
    total, terms, metrics = loss_of(self.RD, self.RS, self.A)
    np.testing.assert_allclose(terms, [[-1.1, -1.8, 0, .8]], rtol=1e-5)
    np.testing.assert_allclose(total, -.525, rtol=1e-5)
    np.testing.assert_array_equal(metrics['active'], [[1, 0, 0, 0]])
    grad = jax.grad(lambda rs: loss_of(self.RD, rs, self.A)[0])(self.RS)
    np.testing.assert_allclose(grad, [[-.275, 0, 0, 0]], rtol=1e-5)

  def test_finite_differences(self):
    at = lambda eps: float(loss_of(self.RD, self.RS.at[0, 0].add(eps), self.A)[0])
    assert (at(1e-2) - at(-1e-2)) / 2e-2 == pytest.approx(-.275, rel=1e-3)

  def test_no_gradient_through_the_discrepancy(self):
    grad = jax.grad(lambda prox: jnp.sum(corrections.decoupled(prox, MU, jnp.ones(MU.shape))))(
        MU + self.RD)
    np.testing.assert_array_equal(grad, 0.)

  def test_the_product_does_not_know_the_proximal_policy(self):
    theta = MU + .3
    for prox in (MU, MU + .1, theta):
      rd = corrections.decoupled(prox, MU, jnp.ones(MU.shape))
      rs = jnp.exp(losses.ratios.log_ratio(theta, prox, jnp.ones(MU.shape)))
      np.testing.assert_allclose(rd * rs, jnp.exp(.3), rtol=1e-5)

  def test_prox_is_mu_is_plain_ppo_and_prox_is_theta_never_clips(self):
    _, terms, metrics = loss_of(jnp.zeros((1, 4)), self.RS, self.A)
    np.testing.assert_allclose(terms, [[-1.1, -1.2, -1, .8]], rtol=1e-5)
    np.testing.assert_array_equal(metrics['clip_share'], [[0, 1, 0, 1]])
    _, _, metrics = loss_of(self.RD, jnp.zeros((1, 4)), self.A)
    np.testing.assert_array_equal(metrics['clip_share'], 0.)

  def test_the_band_is_closed_and_symmetric_and_the_cap_acts_below_it(self):
    ratios = jnp.log(jnp.array([[2, .5, 2.01, .49]]))
    mask = jnp.ones(MU.shape)
    np.testing.assert_allclose(
        corrections.decoupled(MU + ratios, MU, mask), [[2, .5, 0, 0]], rtol=1e-5)
    np.testing.assert_allclose(
        corrections.decoupled(MU + ratios, MU, mask, w_cap=1.5), [[1.5, .5, 0, 0]], rtol=1e-5)

  @pytest.mark.parametrize('options', [{'band': .5}, {'w_cap': .5}])
  def test_options_out_of_range(self, options):
    with pytest.raises(ValueError, match='at least 1'):
      corrections.decoupled(MU, MU, jnp.ones(MU.shape), **options)


class TestDiscrepancyFilter:

  def _of(self, ratios, **options):
    ratios = jnp.array(ratios)
    return corrections.discrepancy_filter(
        jnp.log(ratios) - 2, jnp.full(ratios.shape, -2.), jnp.ones(ratios.shape), **options)

  def test_token_gate_and_weight(self):
    np.testing.assert_allclose(
        self._of([[1.5, 3, .5]], response_gate='none'), [[1.5, 0, .5]], rtol=1e-5)

  def test_one_impossible_token_drops_its_response(self):
    open_ = dict(response_gate='none')
    np.testing.assert_allclose(self._of([[1, 5e-5], [1, 1]], **open_), [[0, 0], [1, 1]], rtol=1e-5)
    np.testing.assert_allclose(self._of([[1, 5e-5]], floor=0., **open_), [[1, 5e-5]], rtol=1e-4)

  def test_response_gates(self):
    rows = [[2, 2, 2, 1], [1, 1, 1, 1]]  # product 8; then times 1.9 is above 10
    np.testing.assert_allclose(self._of(rows), rows, rtol=1e-5)
    np.testing.assert_allclose(self._of([[2, 2, 2, 1.9]]), 0.)
    mean = dict(response_gate='mean', response_low=.999, response_high=1.001)
    np.testing.assert_allclose(self._of([[1.1, 1 / 1.1], [1.1, 1]], **mean)[:, 0], [1.1, 0],
                               rtol=1e-5)

  def test_weight_levels(self):
    rows = [[2, 1.5]]
    np.testing.assert_allclose(self._of(rows, level='response'), [[2, 2]], rtol=1e-5)
    np.testing.assert_allclose(self._of(rows, level='none'), 1.)

  @pytest.mark.parametrize('options, named', [
      ({'level': 'word'}, "level='word'"), ({'response_gate': 'x'}, "response_gate='x'"),
      ({'clamp': .5}, 'clamp=0.5'), ({'floor': 1.}, 'floor=1.0'), ({'token_high': .5}, 'high=0.5')])
  def test_options_out_of_range(self, options, named):
    with pytest.raises(ValueError, match=named):
      self._of([[1.]], **options)
