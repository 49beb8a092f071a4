"""Quantiles, pivots and dense ids: worked values, hostile input."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import order


class TestQuantile:

  def test_worked(self):
    x, where = jnp.arange(11.).reshape(11, 1), jnp.ones((11, 1))
    assert order.quantile(x, where, .1) == 1 and order.quantile(x, where, .9) == 9
    x = jnp.array([[4., jnp.nan], [1, 2]])
    where = jnp.array([[1, 0], [1, 1]])
    np.testing.assert_allclose(order.quantile(x, where, .25), 1.5, rtol=1e-6)

  def test_agrees_with_numpy_whatever_the_order_and_what_lies_outside(self):
    rng = np.random.default_rng(0)
    x, where = rng.normal(size=(5, 7)).astype(np.float32), rng.uniform(size=(5, 7)) < .6
    hidden = jnp.asarray(np.where(where, x, np.nan))
    quantile = jax.jit(order.quantile)
    for q in (0., .1, .37, .9, 1.):
      np.testing.assert_allclose(
          quantile(hidden, jnp.asarray(where), q), np.quantile(x[where], q), rtol=1e-5, atol=1e-6)
    shuffled = rng.permutation(35)
    again = order.quantile(
        hidden.reshape(-1)[shuffled], jnp.asarray(where).reshape(-1)[shuffled], .1)
    assert again == quantile(hidden, jnp.asarray(where), .1)

  def test_of_nothing_is_zero(self):
    with jax.debug_nans(True):
      assert order.quantile(jnp.full((3,), jnp.inf), jnp.zeros(3, bool), .9) == 0


class TestPivot:

  def test_is_a_member_and_the_first_of_its_kind(self):
    x = jnp.array([3., 1, 9, 1, 1, jnp.nan, 2])
    group = jnp.array([0, 1, 0, 0, 1, 0, 1])
    where = jnp.array([True] * 5 + [False, True])
    median, pivot = jax.jit(order.pivot)(x, group, where)
    np.testing.assert_array_equal(median, [3, 1, 3, 3, 1, 3, 1])
    np.testing.assert_array_equal(pivot, [True, True] + [False] * 5)

  def test_an_even_group_takes_the_lower_of_the_middle_two(self):
    median, pivot = order.pivot(
        jnp.array([4., 1, 2, 9]), jnp.zeros(4, jnp.int32), jnp.ones(4, bool))
    np.testing.assert_array_equal(median, [2] * 4)
    np.testing.assert_array_equal(pivot, [False, False, True, False])


class TestDense:

  def test_one_id_a_combination(self):
    first, second = jnp.array([7, 0, 7, 0, 7]), jnp.array([-3, 5, 5, 5, -3])
    ids = np.asarray(jax.jit(order.dense)(first, second))
    assert ids[0] == ids[4] and ids[1] == ids[3] and len({*ids[:3].tolist()}) == 3
    assert ids.min() == 0 and ids.max() == 2

  def test_of_no_rows(self):
    assert order.dense(jnp.zeros(0, jnp.int32)).shape == (0,)
