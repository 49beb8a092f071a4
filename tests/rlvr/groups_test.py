"""Group statistics: worked values, hostile input, invariants."""

import chex
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr import groups

# Two interleaved groups, a sole member, and a row outside that names group 0.
X = np.array([3., 8., 1., 2., 5., np.nan, 2.], np.float32)
GROUP = np.array([0, 1, 0, 0, 2, 0, 0], np.int32)
WHERE = np.array([True, True, True, True, True, False, True])
EMPTY = 5  # no row names it


class ReductionsTest(chex.TestCase):

  def _check(self, function, expected):
    args = jnp.asarray(X), jnp.asarray(GROUP), jnp.asarray(WHERE)
    np.testing.assert_allclose(jax.jit(function)(*args), expected, rtol=1e-6)

  def test_each_row_gets_its_groups_value(self):
    self._check(groups.sum, [8, 8, 8, 8, 5, 8, 8])
    self._check(groups.mean, [2, 8, 2, 2, 5, 2, 2])
    self._check(groups.max, [3, 8, 3, 3, 5, 3, 3])
    self._check(groups.min, [1, 8, 1, 1, 5, 1, 1])
    self._check(groups.median, [2, 8, 2, 2, 5, 2, 2])
    self._check(groups.std, np.sqrt([.5, 0, .5, .5, 0, .5, .5]))
    self._check(lambda x, g, w: groups.std(x, g, w, ddof=1),
                np.sqrt([2 / 3, 0, 2 / 3, 2 / 3, 0, 2 / 3, 2 / 3]))
    self._check(groups.leave_one_out, [5 / 3, 0, 7 / 3, 2, 0, 2, 2])
    self._check(groups.all_equal, [False, True, False, False, True, False, False])
    self._check(lambda x, g, w: groups.count(g, w), [4, 1, 4, 4, 1, 4, 4])

  def test_rank_shares_ties_and_index_counts_in_row_order(self):
    self._check(groups.rank, [3, 0, 0, 1.5, 0, 0, 1.5])
    self._check(lambda x, g, w: groups.index(g, w), [0, 0, 1, 2, 0, 0, 3])

  def test_median_of_an_even_number_is_the_middle_twos_mean(self):
    x, same, where = jnp.array([4., 1, 2, 9]), jnp.zeros(4, jnp.int32), jnp.ones(4, bool)
    np.testing.assert_array_equal(groups.median(x, same, where), [3, 3, 3, 3])
    np.testing.assert_array_equal(groups.median(x, same, where, lower=True), [2, 2, 2, 2])

  def test_a_group_without_members_gives_zero(self):
    x, where = jnp.full((3,), jnp.nan), jnp.zeros(3, bool)
    group = jnp.array([0, 0, 2])
    for function in (groups.sum, groups.mean, groups.max, groups.min, groups.std, groups.median,
                     groups.rank, groups.leave_one_out, groups.group_norm):
      np.testing.assert_array_equal(jax.jit(function)(x, group, where), 0.0)

  def test_columns_have_their_own_where(self):
    x = jnp.array([[1., 5], [3, jnp.nan], [9, 9]])
    where = jnp.array([[True, True], [True, False], [False, False]])
    same = jnp.zeros(3, jnp.int32)
    np.testing.assert_array_equal(groups.mean(x, same, where), [[2., 5], [2, 5], [2, 5]])
    np.testing.assert_array_equal(groups.group_norm(x, same, where, eps=0.0),
                                  [[-1, 0], [1, 0], [0, 0]])

  def test_no_row_at_all(self):
    x, group, where = jnp.zeros(0), jnp.zeros(0, jnp.int32), jnp.zeros(0, bool)
    for function in (groups.mean, groups.std, groups.group_norm):
      assert function(x, group, where).shape == (0,)

  def test_shapes_are_checked(self):
    with pytest.raises(AssertionError):
      groups.mean(jnp.zeros(3), jnp.zeros(3, jnp.int32), jnp.ones(2, bool))
    with pytest.raises(AssertionError):
      groups.mean(jnp.zeros(3), jnp.zeros(3, jnp.int32), jnp.ones(3))


class GroupNormTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    reward = jnp.array([1., 0, 0, 1, 1, 1, 1, 1])
    group = jnp.array([0] * 4 + [1] * 4)
    result = self.variant(groups.group_norm)(reward, group, jnp.ones(8, bool))
    np.testing.assert_allclose(result[:4], [.999998, -.999998, -.999998, .999998], rtol=1e-6)
    np.testing.assert_array_equal(result[4:], 0.0)

  def test_fault_10_equal_rewards_give_exactly_zero(self):
    """fault 10: rounding in the mean or variance never becomes an advantage."""
    sizes = np.tile([3, 6, 7, 8, 16, 64], 100)
    values = np.repeat(np.arange(1, 101, dtype=np.float32) / np.float32(100), 6)
    x, group = jnp.asarray(np.repeat(values, sizes)), jnp.asarray(np.repeat(np.arange(600), sizes))
    where = jnp.ones(x.shape, bool)

    @jax.jit
    def statistics(x):
      return (groups.group_norm(x, group, where), groups.group_norm(x, group, where, eps=0.0),
              groups.std(x, group, where), groups.mean(x, group, where) - x)

    for result in statistics(x):
      np.testing.assert_array_equal(result, 0.0)

  def test_fault_10_gradient_at_constant_input_is_finite(self):
    """fault 10: the derivative of sqrt at 0 does not reach the gradient."""
    same, where = jnp.zeros(7, jnp.int32), jnp.ones(7, bool)
    weight = jnp.arange(7.)

    @jax.jit
    @jax.grad
    def grad_of(x):
      parts = (groups.std(x, same, where), groups.group_norm(x, same, where),
               groups.leave_one_out(x, same, where), groups.whiten(x, where))
      return sum(jnp.sum(weight * part) for part in parts)

    for value in (.9, .7):
      grad = grad_of(jnp.full((7,), value))
      assert np.isfinite(grad).all(), grad

  def test_float_rewards_that_differ_by_rounding_are_bounded_by_eps(self):
    x = jnp.array([.7, np.nextafter(np.float32(.7), np.float32(1)), .7, .7])
    norm = groups.group_norm(x, jnp.zeros(4, jnp.int32), jnp.ones(4, bool))
    assert np.abs(norm).max() < .1  # 6e-8 over (2.6e-8 + 1e-6)

  def test_binary_rewards(self):
    for num_right in (1, 3, 7):
      reward = jnp.array([1.] * num_right + [0.] * (8 - num_right))
      norm = groups.group_norm(reward, jnp.zeros(8, jnp.int32), jnp.ones(8, bool), eps=0.0)
      p = num_right / 8
      np.testing.assert_allclose(norm[0], np.sqrt((1 - p) / p), rtol=1e-5)
      np.testing.assert_allclose(norm[-1], -np.sqrt(p / (1 - p)), rtol=1e-5)

  def test_gradient_matches_finite_differences(self):
    group, where = jnp.array([0, 0, 0, 1, 1, 0]), jnp.array([True] * 5 + [False])
    weight = jnp.array([1., -2, .5, 3, 1, 7])
    x = jnp.array([.3, 1.1, -.4, 2., .5, 0.])
    for function in (groups.std, groups.group_norm, groups.median, groups.mean):
      total = jax.jit(lambda x, f=function: jnp.sum(weight * f(x, group, where)))
      numeric = [(total(x.at[i].add(.01)) - total(x.at[i].add(-.01))) / .02 for i in range(6)]
      np.testing.assert_allclose(jax.grad(total)(x), numeric, rtol=2e-2, atol=2e-2)


_norm = jax.jit(lambda x, g, w: groups.group_norm(x, g, w, eps=0.0))
_median, _rank = jax.jit(groups.median), jax.jit(groups.rank)


class InvariantsTest(chex.TestCase):

  @hypothesis.settings(max_examples=40, deadline=None)
  @hypothesis.given(
      st.lists(st.sampled_from([0., 1., .5, -2., .7]), min_size=8, max_size=8),
      st.lists(st.integers(0, 3), min_size=8, max_size=8),
      st.lists(st.booleans(), min_size=8, max_size=8),
      st.permutations(range(8)))
  def test_group_norm(self, x, group, where, order):
    x, group, where = np.array(x, np.float32), np.array(group, np.int32), np.array(where)
    order = np.array(order)
    result = np.asarray(_norm(x, group, where))
    assert np.isfinite(result).all()
    for index in range(4):
      member = np.asarray((group == index) & where)
      total, squares = result[member].sum(), np.square(result[member]).sum()
      np.testing.assert_allclose(total, 0, atol=1e-5)
      spread = member.any() and np.ptp(np.asarray(x)[member]) > 0
      np.testing.assert_allclose(squares, member.sum() if spread else 0, rtol=1e-4)
    np.testing.assert_allclose(_norm(3 * x + 2, group, where), result, atol=2e-5)
    np.testing.assert_allclose(_norm(x[order], group[order], where[order]), result[order],
                               atol=1e-5)
    # The library against numpy, one group at a time.
    median, rank = _median(x, group, where), _rank(x, group, where)
    for index in range(4):
      member = np.asarray((group == index) & where)
      values = np.asarray(x)[member]
      if member.any():
        np.testing.assert_allclose(np.asarray(median)[member], np.median(values), rtol=1e-6)
        below = (values[None] < values[:, None]).sum(1)
        equal = (values[None] == values[:, None]).sum(1)
        np.testing.assert_allclose(np.asarray(rank)[member], below + (equal - 1) / 2)


class TokensTest(chex.TestCase):

  def test_rows(self):
    x = jnp.array([[1., 3, jnp.nan], [jnp.nan] * 3, [2, 2, 5]])
    mask = jnp.array([[1., 1, 0], [0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(groups.row_sum(x, mask), [4, 0, 9])
    np.testing.assert_array_equal(groups.row_mean(x, mask), [2, 0, 3])
    grad = jax.grad(lambda x: jnp.sum(groups.row_mean(x, mask)))(x)
    np.testing.assert_allclose(grad, [[.5, .5, 0], [0, 0, 0], [1 / 3] * 3], rtol=1e-6)

  def test_fault_22_last_token(self):
    """fault 22: the last kept token, not the last place of the row."""
    mask = jnp.array([[1., 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(
        groups.last_token(mask), [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])

  def test_whiten(self):
    x = jnp.array([[1., 2], [3, jnp.nan]])
    where = jnp.array([[True, True], [True, False]])
    root = np.sqrt(1.5)
    np.testing.assert_allclose(groups.whiten(x, where), [[-root, 0], [root, 0]], rtol=1e-6)
    np.testing.assert_array_equal(groups.whiten(jnp.full((3, 2), .7), jnp.ones((3, 2))), 0.0)
    np.testing.assert_array_equal(groups.whiten(x, jnp.zeros((2, 2), bool)), 0.0)
    # The floor: a variance of 1e-12 is divided by 1e-8.
    tiny = jnp.array([-1e-6, 1e-6])
    np.testing.assert_allclose(groups.whiten(tiny, jnp.ones(2)), [-1e-2, 1e-2], rtol=1e-5)
