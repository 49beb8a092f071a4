"""KL estimators: values, overflow, and whose gradient is the KL's."""

import chex
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr import losses
from rlvr import testing
from rlvr.losses import kl

ALL_ESTIMATORS = list(kl.KL_ESTIMATORS)


class EstimatorsTest(chex.TestCase):

  def test_values(self):
    logp, ref = jnp.log(jnp.array([.5])), jnp.log(jnp.array([.25]))
    np.testing.assert_allclose(kl.k1(logp, ref), [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(kl.k2(logp, ref), [np.log(2) ** 2 / 2], rtol=1e-6)
    np.testing.assert_allclose(kl.k3(logp, ref), [.5 + np.log(2) - 1], rtol=1e-5)

  def test_k1_and_k3_have_the_right_mean(self):
    p, ref = jnp.array([.7, .2, .1]), jnp.array([.2, .5, .3])
    truth = jnp.sum(p * jnp.log(p / ref))
    for part in (kl.k1, kl.k3):
      np.testing.assert_allclose(jnp.sum(p * part(jnp.log(p), jnp.log(ref))), truth, rtol=1e-6)

  @hypothesis.settings(max_examples=50, deadline=None)
  @hypothesis.given(st.floats(-30, 0, width=32), st.floats(-30, 0, width=32))
  def test_k2_and_k3_are_not_negative(self, logp, ref):
    for part in (kl.k2, kl.k3):
      assert part(jnp.array([logp]), jnp.array([ref]))[0] >= 0
      assert part(jnp.array([logp]), jnp.array([logp]))[0] == 0
    if abs(logp - ref) > 1e-3:
      assert kl.k3(jnp.array([logp]), jnp.array([ref]))[0] > 0

  def test_fault_24_clamped_before_the_exponential(self):
    """fault 24: logp -120, ref -1 gives 4.85e8 with gradient 0, both finite."""
    value, grad = jax.value_and_grad(lambda x: kl.k3(x, jnp.array([-1.]))[0])(jnp.array([-120.]))
    np.testing.assert_allclose(value, 4.85e8, rtol=1e-3)
    np.testing.assert_array_equal(grad, 0.0)
    for part in kl.KL_ESTIMATORS.values():
      for logp, ref in ((-1., -500.), (-500., -1.), (-1., -jnp.inf), (-jnp.inf, -1.)):
        cell = testing.make_cell([1.], mask=jnp.ones((1, 1)), ref_logp=[[ref]])
        terms = lambda x, cell=cell, part=part: losses.kl_loss(
            testing.make_output(x), cell, {}, estimator=part)[0].sum()
        value, grad = jax.value_and_grad(terms)(jnp.array([[logp]]))
        assert np.isfinite(value) and np.isfinite(grad).all()


def _expected_gradient(loss):
  """Gradient on logit 0 of E_p[loss], samples of p (.9, .1) frozen, reference (.5, .5)."""
  logits = jnp.log(jnp.array([.9, .1]))
  ref = jnp.log(jnp.array([[.5], [.5]]))
  cell = testing.make_cell(
      [0., 0.], ref_logp=ref, weights={'loss': jnp.array([[.9], [.1]])})

  def total(logits):
    out = testing.make_output(jax.nn.log_softmax(logits)[:, None])
    return testing.objective(loss(out, cell, {})[0], cell.weights['loss'])

  return jax.grad(total)(logits)[0]


def _true_gradient(reverse=True):
  def divergence(logits):
    p, q = jax.nn.log_softmax(logits), jnp.log(jnp.array([.5, .5]))
    return jnp.sum(jnp.exp(p) * (p - q)) if reverse else jnp.sum(jnp.exp(q) * (q - p))
  return jax.grad(divergence)(jnp.log(jnp.array([.9, .1])))[0]


def test_fault_25_the_default_has_the_gradient_of_the_reverse_kl():
  """fault 25: p (.9,.1), ref (.5,.5), logit 0: .1978."""
  np.testing.assert_allclose(_true_gradient(), .1978, atol=5e-5)
  np.testing.assert_allclose(_expected_gradient(losses.kl_loss), _true_gradient(), rtol=1e-5)


@pytest.mark.parametrize('name, expected', [
    ('k1', 0.), ('k2', .1978), ('k3', .4), ('unbiased', .1978)])
def test_fault_25_each_estimator_as_a_loss(name, expected):
  """fault 25: k1 does not pull at all, k3 pulls along the forward KL."""
  loss = lambda out, cell, knobs: losses.kl_loss(
      out, cell, knobs, estimator=kl.KL_ESTIMATORS[name])
  np.testing.assert_allclose(_expected_gradient(loss), expected, atol=5e-5)
  if name == 'k3':
    np.testing.assert_allclose(_true_gradient(reverse=False), expected, rtol=1e-5)


def test_kl_loss_needs_a_reference():
  with pytest.raises(ValueError, match='ref_logp'):
    losses.kl_loss(testing.make_output([[-1.]]), testing.make_cell([1.]), {})


def test_the_metric_is_k3_whatever_the_estimator():
  cell = testing.make_cell([1.], ref_logp=[[-2.]])
  for part in kl.KL_ESTIMATORS.values():
    _, metrics = losses.kl_loss(testing.make_output([[-1.]]), cell, {}, estimator=part)
    np.testing.assert_allclose(metrics['ref_kl'], [[np.exp(-1)]], rtol=1e-5)


def test_unbiased_has_the_value_of_k3_and_the_gradient_of_rho_k3():
  logp, ref = jnp.array([-1., -.2, -3.]), jnp.array([-1.5, -2., -1.])
  np.testing.assert_allclose(kl.unbiased(logp, ref), kl.k3(logp, ref), rtol=1e-6)
  weighted = lambda x: jnp.sum(jnp.exp(x - logp) * kl.k3(x, ref))
  np.testing.assert_allclose(
      jax.grad(lambda x: jnp.sum(kl.unbiased(x, ref)))(logp), jax.grad(weighted)(logp), rtol=1e-5)
