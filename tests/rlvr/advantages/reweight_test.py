"""Mass-preserving weights."""

import jax.numpy as jnp
import numpy as np

from rlvr.advantages import reweight

RAW = jnp.array([[1., 2, 4, jnp.nan], [3, 3, jnp.nan, jnp.nan], [jnp.nan] * 4])
MASK = jnp.array([[1., 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])


def test_the_mean_over_a_row_is_one():
  weight = reweight.mass_preserving(RAW, MASK)
  np.testing.assert_allclose(
      weight, [[3 / 7, 6 / 7, 12 / 7, 0], [1, 1, 0, 0], [0, 0, 0, 0]], rtol=1e-6)


def test_the_mean_over_a_trajectory_is_one():
  """Rows 0 and 1 are one trajectory: raw mean (1 + 2 + 4 + 3 + 3) / 5 = 2.6."""
  weight = reweight.mass_preserving(RAW, MASK, jnp.array([2, 2, 0]))
  np.testing.assert_allclose(weight[:2].sum(), 5, rtol=1e-6)
  np.testing.assert_allclose(weight[0], np.array([1, 2, 4, 0]) / 2.6, rtol=1e-6)
  np.testing.assert_array_equal(weight[2], 0)


def test_exponential():
  weight = reweight.exponential(jnp.log(RAW) + 1e4, MASK != 0)
  np.testing.assert_allclose(weight, reweight.mass_preserving(RAW, MASK), rtol=1e-2)
  np.testing.assert_allclose(
      reweight.exponential(jnp.full(RAW.shape, 1e4), MASK != 0), MASK != 0, atol=1e-6)
