"""ReMix's anchor: the schedule, and what a convex mix of two KLs must do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import losses
from rlvr import testing
from rlvr.losses import kl
from rlvr.losses import two_anchors

LOGP, BASE, LAST = -1.0, -1.5, -.25


def term(step, logp=LOGP, base=BASE, last=LAST, **options):
  cell = testing.make_cell(
      [0.0], ref_logp=[[base]], extras={
          'prev_logp': jnp.array([[last]]), 'step': jnp.array([step])})
  return losses.kl_convex(testing.make_output([[logp]]), cell, {}, **options)


def value(step, **options):
  return float(term(step, **options)[0][0, 0])


class TestBaseShare:

  def test_worked(self):
    steps = jnp.array([0, 50, 51, 60, 61, 70, 90, 91, 500])
    np.testing.assert_allclose(
        two_anchors.base_share(steps), [1, 1, .9, .9, .8, .8, .6, .5, .5], rtol=1e-6)


class TestKlConvex:

  def test_at_the_start_it_is_the_kl_to_the_base_alone(self):
    expected = float(kl.k3(jnp.float32(LOGP), jnp.float32(BASE)))
    assert value(0) == pytest.approx(expected)
    assert value(0, last=-7.0) == value(0)

  def test_linear_in_lambda(self):
    base, last = (float(kl.k3(jnp.float32(LOGP), jnp.float32(x))) for x in (BASE, LAST))
    for step, share in ((55, .9), (65, .8), (91, .5), (10**6, .5)):
      assert value(step) == pytest.approx(share * base + (1 - share) * last, rel=1e-5)

  def test_never_negative_and_zero_where_all_agree(self):
    assert value(70, logp=-1.0, base=-1.0, last=-1.0) == 0
    for logp in (-3.0, -1.5, -.6, -.25):
      assert value(70, logp=logp) > 0

  def test_gradient_against_finite_differences(self):
    slope = jax.grad(lambda x: term(70, logp=x)[0].sum())(LOGP)
    h = 1e-2
    assert float(slope) == pytest.approx(
        (value(70, logp=LOGP + h) - value(70, logp=LOGP - h)) / (2 * h), rel=1e-3)

  def test_each_row_follows_its_own_step(self):
    cell = testing.make_cell([0.0, 0.0], ref_logp=[[BASE]] * 2, extras={
        'prev_logp': jnp.full((2, 1), LAST), 'step': jnp.array([0, 91])})
    terms, metrics = losses.kl_convex(testing.make_output([[LOGP]] * 2), cell, {})
    np.testing.assert_allclose(terms[:, 0], [value(0), value(91)], rtol=1e-6)
    np.testing.assert_allclose(metrics['base_share'][:, 0], [1, .5])

  def test_what_it_refuses(self):
    for options, name in (({'hold': -1}, 'hold=-1'), ({'every': 0}, 'every=0'),
                          ({'drop': -.1}, 'drop=-0.1'), ({'least': 1.5}, 'least=1.5')):
      with pytest.raises(ValueError, match=name):
        value(0, **options)
    cell = testing.make_cell([0.0], ref_logp=[[BASE]])
    with pytest.raises(ValueError, match='memory last_policy'):
      losses.kl_convex(testing.make_output([[LOGP]]), cell, {})
