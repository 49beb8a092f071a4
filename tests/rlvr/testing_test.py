"""The builders make what they say; rows stay together when they are taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import hostile
from rlvr import rows as rows_lib
from rlvr import testing
from rlvr import types


def test_make_rollout_defaults():
  rollout = testing.make_rollout([[1, 0], [None]], padding=1)
  assert rollout.tokens.shape == (4, 2)
  np.testing.assert_array_equal(rollout.group, [0, 0, 1, 0])
  np.testing.assert_array_equal(rollout.where, [True, True, True, False])
  np.testing.assert_array_equal(types.graded(rollout), [True, True, False, False])
  np.testing.assert_array_equal(rollout.columns[:2, 0], [1, 0])
  np.testing.assert_array_equal(jnp.isnan(rollout.reward), [False, False, True, True])
  np.testing.assert_array_equal(types.lengths(rollout), [2, 2, 2, 0])


def test_make_rollout_options():
  rollout = testing.make_rollout(
      [[1], [], [0]], lengths=[3, 0], max_tokens=5, columns=[[1, 2], [0, 3]],
      stops=[types.BUDGET, types.STOP_TOKEN], version=jnp.ones((3, 5), jnp.int32),
      novelty=jnp.ones(3))
  assert rollout.tokens.shape == (3, 5)  # a third row, so that group 2 is a row number
  np.testing.assert_array_equal(rollout.group, [0, 2, 0])
  np.testing.assert_array_equal(rollout.columns[:2], [[1, 2], [0, 3]])
  np.testing.assert_array_equal(rollout.extras['novelty'], 1)
  np.testing.assert_array_equal(rollout.version, 1)
  assert rollout.stop[0] == types.BUDGET
  with pytest.raises(ValueError, match='lengths has 1 entries for 2 rows'):
    testing.make_rollout([[1, 0]], lengths=[1])


def test_the_grid_has_one_structure():
  shapes = {str(jax.tree.map(lambda x: (x.shape, x.dtype), rollout))
            for rollout in hostile.rollouts().values()}
  assert len(shapes) == 1
  for rollout in hostile.rollouts().values():
    assert (rollout.group < rollout.where.shape[0]).all()


def test_fault_16_one_index_for_every_field():
  """fault 16: rows 10,11,20,21,30,31 keep groups 0 and 2, rewards and all."""
  names = [10, 11, 20, 21, 30, 31]
  rollout = testing.make_rollout(
      [[10, 11], [20, 21], [30, 31]], tokens=[[n] for n in names],
      value=jnp.array(names, jnp.float32)[:, None])
  keep = jnp.flatnonzero(rollout.group != 1)
  taken = rows_lib.take_rows(rollout, keep)
  for field in (taken.reward, taken.tokens[:, 0], taken.value[:, 0], taken.columns[:, 0]):
    np.testing.assert_array_equal(field, [10, 11, 30, 31])
  np.testing.assert_allclose(
      advantages.dr_grpo(taken), [-.5, .5, -.5, .5])
  np.testing.assert_allclose(advantages.dr_grpo(rows_lib.regroup(taken)), [-.5, .5, -.5, .5])
