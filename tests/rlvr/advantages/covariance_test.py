"""Covariance of tokens by hand, and what Clip-Cov cuts."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import testing
from rlvr.advantages import covariance

OLD = jnp.array([[0., -4., 0.], [-1., -3., 0.]])
ADVANTAGES = jnp.array([2., -2.])
ROLLOUT = testing.make_rollout([[1, 0]], lengths=[2, 2], max_tokens=3, old_logp=OLD)


def test_worked():
  """Means -2 and 0: (2, -2 | 1, -1) times (2 | -2)."""
  value = covariance.covariance(ADVANTAGES[:, None] * jnp.ones((2, 3)), OLD, ROLLOUT.mask)
  np.testing.assert_allclose(value, [[4, -4, 0], [-2, 2, 0]], rtol=1e-6)


class TestClipCov:

  def cut(self, **options):
    return np.asarray(covariance.clip_cov(ROLLOUT, base=lambda rollout: ADVANTAGES, **options))

  def test_the_largest_of_the_band_is_cut(self):
    np.testing.assert_array_equal(self.cut(), [[0, 2, 0], [-2, -2, 0]])
    np.testing.assert_array_equal(self.cut(high=3.), [[2, 2, 0], [-2, 0, 0]])
    np.testing.assert_array_equal(self.cut(share=.5), [[0, 2, 0], [-2, 0, 0]])
    np.testing.assert_array_equal(self.cut(low=10., high=20.), [[2, 2, 0], [-2, -2, 0]])

  def test_what_it_refuses(self):
    for options in (dict(share=-.1), dict(share=1.5), dict(low=5., high=5.)):
      with pytest.raises(ValueError, match='clip_cov'):
        self.cut(**options)
    with pytest.raises(ValueError, match='score_first'):
      covariance.clip_cov(ROLLOUT.replace(old_logp=None))
