"""RTMC: worked trees, its limits, loops, and what it is blind to."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing

TREE = functools.partial(advantages.rtmc, kappa=0.0)


def make(paths, rewards, **fields):
  """One group; a path is [(state, action), ...], each step one token."""
  width = max(map(len, paths))
  ids = np.full((2, len(paths), width), -1, np.int32)
  for row, path in enumerate(paths):
    for step, pair in enumerate(path):
      ids[:, row, step] = pair
  turn = np.broadcast_to(np.arange(width, dtype=np.int32), ids[0].shape)
  return testing.make_rollout(
      [rewards], lengths=[len(p) for p in paths], turn=turn, state_id=ids[0], action_id=ids[1],
      **fields)


CARD = [[(0, 0), (1, 2)], [(0, 0), (1, 3)], [(0, 1), (2, 2)], [(0, 1), (2, 4)]]


class TestRtmc:

  def test_worked(self):
    rollout = make(CARD, [1, 0, 0, 0])
    np.testing.assert_allclose(
        TREE(rollout), [[.25, .5], [.25, -.5], [-.25, 0], [-.25, 0]], atol=1e-6)
    np.testing.assert_allclose(
        advantages.rtmc(rollout),
        [[.25, .58333], [.25, -.41667], [-.25, -.08333], [-.25, -.08333]], atol=1e-5)

  def test_no_shared_state_is_a_share_of_the_centred_return(self):
    paths = [[(3 * i, 0), (3 * i + 1, 1)] for i in range(4)]
    rewards = [1, 0, 0, .5]
    rollout = make(paths, rewards)
    centred = np.array(rewards) - np.mean(rewards)
    for kappa in (0., 1., 3.):
      np.testing.assert_allclose(
          advantages.rtmc(rollout, kappa=kappa)[:, 1], kappa / (1 + kappa) * centred, atol=1e-6)
    np.testing.assert_allclose(
        advantages.rtmc(rollout, kappa=1e6, scale='std')[:, 0], advantages.grpo(rollout), atol=1e-4)

  def test_the_tree_sums_to_zero_at_each_state(self):
    a = np.asarray(TREE(make(CARD, [1, .3, .2, .9])))
    np.testing.assert_allclose([a[:, 0].sum(), a[:2, 1].sum(), a[2:, 1].sum()], 0, atol=1e-6)

  def test_affine(self):
    one, other = make(CARD, [1, 0, .5, 0]), make(CARD, [5, 2, 3.5, 2])
    np.testing.assert_allclose(
        advantages.rtmc(other), 3 * advantages.rtmc(one), rtol=1e-4, atol=1e-5)

  def test_loops(self):
    loop = make([[(0, 0), (0, 0)], [(0, 1)]], [1, 0])
    np.testing.assert_allclose(TREE(loop), [[.5, .5], [-.5, 0]], atol=1e-6)
    both = make([[(0, 0), (0, 1)], [(0, 1)]], [1, 0])
    np.testing.assert_allclose(TREE(both), [[1 / 3, -1 / 6], [-1 / 6, 0]], atol=1e-6)

  def test_discount(self):
    rollout = make([[(0, 0), (1, 0)], [(0, 1)]], [1, 0])
    np.testing.assert_allclose(TREE(rollout, discount=.5), [[.25, 0], [-.25, 0]], atol=1e-6)

  def test_equal_returns_give_exactly_zero(self):
    np.testing.assert_array_equal(advantages.rtmc(make(CARD, [.7] * 4)), 0)
    np.testing.assert_array_equal(advantages.rtmc(make(CARD[:1], [.7])), 0)

  def test_permutation(self):
    rewards, order = [1, 0, .5, 0], [2, 0, 3, 1]
    moved = make([CARD[i] for i in order], [rewards[i] for i in order])
    np.testing.assert_allclose(
        advantages.rtmc(moved), advantages.rtmc(make(CARD, rewards))[jnp.array(order)], atol=1e-6)

  def test_groups_apart_and_observations_get_nothing(self):
    rollout = make(CARD, [1, 0, 0, 0])
    twice = rollout.replace(group=jnp.array([0, 0, 1, 1]), mask=rollout.mask.at[0, 1].set(0))
    np.testing.assert_allclose(TREE(twice), [[0, 0], [0, -.5], [0, 0], [0, 0]], atol=1e-6)

  @pytest.mark.parametrize('option', [dict(kappa=-1.), dict(discount=2.), dict(scale='x')])
  def test_options(self, option):
    with pytest.raises(ValueError, match=f'rtmc: {next(iter(option))}='):
      advantages.rtmc(make(CARD, [1, 0, 0, 0]), **option)
