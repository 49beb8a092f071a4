"""Mismatch and staleness metrics."""

import jax.numpy as jnp
import numpy as np

from rlvr.losses import diagnostics


def test_mismatch():
  trainer, sampler = jnp.log(jnp.array([[.5, .2, .9]])), jnp.log(jnp.array([[.5, .4, .1]]))
  mask = jnp.array([[1., 1, 0]])
  metrics = diagnostics.mismatch(trainer, sampler, mask)
  np.testing.assert_allclose(metrics['mismatch_ratio'], [[1, .5, 0]], rtol=1e-6)
  np.testing.assert_allclose(metrics['mismatch_abs'], [[0, np.log(2), 0]], rtol=1e-6)
  np.testing.assert_allclose(metrics['mismatch_kl'], [[0, .5 + np.log(2) - 1, 0]], atol=1e-6)


def test_mismatch_kl_has_the_mean_of_the_divergence_from_the_sampler():
  """Averaged over the sampler's own draws it is KL(sampler || trainer)."""
  mu, p = jnp.array([[.7, .2, .1]]), jnp.array([[.2, .5, .3]])
  metrics = diagnostics.mismatch(jnp.log(p), jnp.log(mu), jnp.ones((1, 3)))
  np.testing.assert_allclose(
      jnp.sum(mu * metrics['mismatch_kl']), jnp.sum(mu * jnp.log(mu / p)), rtol=1e-5)
  np.testing.assert_allclose(jnp.sum(mu * metrics['mismatch_ratio']), 1.0, rtol=1e-6)


def test_mismatch_is_finite_off_the_mask_and_at_minus_infinity():
  logp = jnp.array([[jnp.nan, -jnp.inf, -1.]])
  metrics = diagnostics.mismatch(logp, logp[:, ::-1], jnp.array([[0., 1, 1]]).at[0, 2].set(0.))
  for value in metrics.values():
    assert np.isfinite(value).all()


def test_staleness():
  version = jnp.array([[2, 4, -1], [7, 7, 7]])
  mask = jnp.array([[1., 1, 0], [1, 1, 1]])
  metrics = diagnostics.staleness(version, jnp.array(7), mask)
  np.testing.assert_array_equal(metrics['staleness'], [[5, 3, 0], [0, 0, 0]])
  np.testing.assert_array_equal(metrics['stale'], [[1, 1, 0], [0, 0, 0]])
