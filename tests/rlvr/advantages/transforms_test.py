"""Transforms of advantages."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import testing
from rlvr.advantages import transforms


def test_clip_advantages():
  rollout = testing.make_rollout([[1, 0, 2]])
  clipped = transforms.clip_advantages(jnp.array([-9., .5, 9]), rollout, low=-1., high=2.)
  np.testing.assert_array_equal(clipped, [-1, .5, 2])
  with pytest.raises(ValueError, match='low=1'):
    transforms.clip_advantages(jnp.zeros(3), rollout, low=1.)


def test_whiten_batch_is_over_graded_entries():
  rollout = testing.make_rollout([[1, None, 0]], lengths=[1, 2, 2], padding=1)
  rows = transforms.whiten_batch(jnp.array([3., 99, 1, 99]), rollout)
  np.testing.assert_allclose(rows, [1, 0, -1, 0], rtol=1e-6)
  per_token = jnp.where(rollout.mask != 0, jnp.array([3., 99, 0, 99])[:, None], jnp.nan)
  tokens = transforms.whiten_batch(per_token, rollout)
  root = np.sqrt(2)
  np.testing.assert_allclose(
      tokens, [[root, 0], [0, 0], [-root / 2, -root / 2], [0, 0]], rtol=1e-5)


def test_none():
  x = jnp.array([1., 2])
  assert transforms.none(x, testing.make_rollout([[1, 0]])) is x
