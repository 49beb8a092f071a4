"""Bands: worked values, their edges, and what a dropped token does not change."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import corrections


def weights(name, ratios, mask=None, **options):
  """The correction of tokens whose old / rollout probability is `ratios`."""
  ratios = jnp.atleast_2d(jnp.array(ratios))
  mask = jnp.ones(ratios.shape) if mask is None else jnp.atleast_2d(jnp.array(mask, jnp.float32))
  return corrections.CORRECTIONS[name](jnp.log(ratios) - 3, jnp.full(ratios.shape, -3.), mask,
                                       **options)


class TestTokenMasked:

  def test_zero_on_both_sides_of_the_band(self):
    np.testing.assert_allclose(
        weights('token_masked', [.4, .6, 1, 4.9, 5.1]), [[0, .6, 1, 4.9, 0]], rtol=1e-5)

  def test_a_gate_from_zero_is_a_cap_that_filters(self):
    np.testing.assert_allclose(
        weights('token_masked', [1e-3, 2, 6], low=0.), [[1e-3, 2, 0]], rtol=1e-5)

  def test_tokens_are_alone(self):
    np.testing.assert_allclose(
        weights('token_masked', [[9, 1], [1, 9]], [[1, 1], [1, 0]]), [[0, 1], [1, 1]], rtol=1e-5)


class TestResponseBands:

  def test_sequence_drops_the_whole_response(self):
    np.testing.assert_allclose(
        weights('sequence_masked', [[4, 2], [4, 4], [.2, .4]], [[1, 1], [1, 1], [1, 1]]),
        [[8, 8], [0, 0], [0, 0]], rtol=1e-5)

  def test_geometric(self):
    np.testing.assert_allclose(
        weights('geometric_masked', [[2, .5, 1], [1.01, 1.01, 1]], [[1, 1, 0], [1, 1, 0]]),
        [[1, 1, 1], [0, 0, 1]], rtol=1e-5)

  @pytest.mark.parametrize('name', ['token_masked', 'sequence_masked', 'geometric_masked'])
  @pytest.mark.parametrize('options', [{'low': 1.1}, {'high': .9}, {'low': -.1}])
  def test_a_band_encloses_one(self, name, options):
    with pytest.raises(ValueError, match=f'{name}: low='):
      weights(name, [1.], **options)


class TestKlRejection:

  def test_worked(self):
    # k3 of ratios 2 and 1/2: 2 - ln 2 - 1 = .3069, 1/2 + ln 2 - 1 = .1931; mean .25.
    rows = [[2, .5, 7], [1, 1, 7]]
    mask = [[1, 1, 0], [1, 1, 0]]
    np.testing.assert_array_equal(
        weights('kl_rejection', rows, mask, limit=.24), [[0, 0, 1], [1, 1, 1]])
    np.testing.assert_array_equal(weights('kl_rejection', rows, mask, limit=.26), 1.)
    # The geometric mean of the same response is 1: it sees nothing.
    np.testing.assert_allclose(weights('geometric_masked', rows, mask), 1., rtol=1e-6)

  def test_a_negative_limit_is_refused(self):
    with pytest.raises(ValueError, match='limit=-1'):
      weights('kl_rejection', [1.], limit=-1)
