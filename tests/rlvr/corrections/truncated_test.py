"""Sampler corrections: worked values."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import corrections


def test_token_truncated():
  old = jnp.log(jnp.array([[.5, .2, .9]]))
  rolled = jnp.log(jnp.array([[.5, .4, .1]]))
  mask = jnp.ones((1, 3))
  np.testing.assert_allclose(
      corrections.token_truncated(old, rolled, mask), [[1, .5, 2]], rtol=1e-6)
  np.testing.assert_allclose(
      corrections.token_truncated(old, rolled, mask, cap=20.), [[1, .5, 9]], rtol=1e-5)
  np.testing.assert_array_equal(
      corrections.token_truncated(old, rolled, mask.at[0, 1].set(0.))[0, 1], 1.0)


def test_truncation_keeps_the_weighted_mean_at_most_one():
  """Sum over the vocabulary of mu * min(p / mu, C) is at most 1, 1 without truncation."""
  p, mu = jnp.array([.7, .2, .1]), jnp.array([.2, .5, .3])
  weight = lambda cap: corrections.token_truncated(
      jnp.log(p)[None], jnp.log(mu)[None], jnp.ones((1, 3)), cap=cap)[0]
  np.testing.assert_allclose(jnp.sum(mu * weight(100.)), 1.0, rtol=1e-6)
  np.testing.assert_allclose(jnp.sum(mu * weight(2.)), .4 + .2 + .1, rtol=1e-6)


def test_cap_below_one_is_refused():
  with pytest.raises(ValueError, match='cap=0.5'):
    corrections.token_truncated(jnp.zeros((1, 1)), jnp.zeros((1, 1)), jnp.ones((1, 1)), cap=.5)


def test_none_is_one():
  nan = jnp.full((2, 3), jnp.nan)
  np.testing.assert_array_equal(corrections.none(nan, nan, jnp.ones((2, 3))), 1.0)


class TestResponseLevels:
  OLD = jnp.log(jnp.array([[.8, .2, .5], [.5, .5, .5]]))
  ROLLED = jnp.log(jnp.array([[.4, .1, .5], [.5, .5, .1]]))
  MASK = jnp.array([[1., 1, 0], [1, 1, 0]])

  def test_sequence_is_the_product(self):
    np.testing.assert_allclose(
        corrections.sequence_truncated(self.OLD, self.ROLLED, self.MASK, cap=9.),
        [[4, 4, 1], [1, 1, 1]], rtol=1e-6)
    np.testing.assert_allclose(
        corrections.sequence_truncated(self.OLD, self.ROLLED, self.MASK)[0], [2, 2, 1], rtol=1e-6)

  def test_geometric_is_the_products_root(self):
    np.testing.assert_allclose(
        corrections.geometric_truncated(self.OLD, self.ROLLED, self.MASK),
        [[2, 2, 1], [1, 1, 1]], rtol=1e-6)
    one_half = self.OLD.at[0, 1].set(jnp.log(.1))  # ratios 2 and 1: sqrt 2
    np.testing.assert_allclose(
        corrections.geometric_truncated(one_half, self.ROLLED, self.MASK)[0],
        [2 ** .5, 2 ** .5, 1], rtol=1e-6)

  @pytest.mark.parametrize('name', ['sequence_truncated', 'geometric_truncated'])
  def test_cap_below_one_is_refused(self, name):
    with pytest.raises(ValueError, match=f'{name}: cap=0.9'):
      corrections.CORRECTIONS[name](self.OLD, self.ROLLED, self.MASK, cap=.9)
