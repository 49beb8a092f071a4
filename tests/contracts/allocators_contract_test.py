"""Every entry of ALLOCATORS: counts within what is left and within the most, one trace."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import allocators
from rlvr import hostile

MOST = 6


def bought(name):
  part = allocators.ALLOCATORS[name]
  return part if name == 'no_extra' else functools.partial(part, add=2, most=MOST)


@pytest.mark.parametrize('name', allocators.ALLOCATORS)
def test_allocator(name):
  traces = []

  @jax.jit
  def part(rollout, left):
    traces.append(1)
    return bought(name)(rollout, left)

  for grid, rollout in hostile.rollouts().items():
    prior = jnp.where(rollout.where, .9, jnp.nan)
    rollout = rollout.replace(extras=rollout.extras | {'prior': prior})
    held = np.bincount(np.asarray(rollout.prompt)[np.asarray(rollout.where)], minlength=4)
    graded = np.asarray(rollout.where & rollout.graded)
    seen = np.bincount(np.asarray(rollout.prompt)[graded], minlength=4)
    for left in (0, 1, 3, 100):
      counts = np.asarray(part(rollout, left))
      assert counts.shape == rollout.prompts.id.shape and counts.dtype == np.int32, grid
      assert (counts >= 0).all() and counts.sum() <= left, (grid, counts)
      assert (held + counts <= np.maximum(held, MOST)).all(), (grid, counts)
      assert not counts[seen == 0].any(), (grid, counts)
      np.testing.assert_array_equal(bought(name)(rollout, left), counts, err_msg=grid)
  assert len(traces) == 1
