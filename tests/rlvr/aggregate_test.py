"""Aggregates: documented sums, and that parts of a batch add up to the whole."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import aggregate
from rlvr import testing

MASK = jnp.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], jnp.float32)
ONES = jnp.ones(4)
ALL = jnp.ones(4, bool)


class SumsTest(chex.TestCase):

  def test_documented_sums(self):
    group = jnp.array([0, 0, 1, 2])
    for name, part in aggregate.AGGREGATES.items():
      expected = {'seq_sum': 7 / 4, 'seq_sum_constant': 7 / (4 * 3000)}.get(name, 1.0)
      np.testing.assert_allclose(jnp.sum(part(MASK, ONES, ALL, group)), expected, rtol=1e-6)

  def test_worked(self):
    row = lambda *values: np.array(values)[:, None] * np.asarray(MASK)
    group = jnp.array([0, 0, 1, 1])
    for part, per_token in (
        (aggregate.token_mean, row(1 / 7, 1 / 7, 1 / 7, 0)),
        (aggregate.seq_mean_token_mean, row(1 / 6, 1 / 3, 1 / 12, 0)),
        (aggregate.seq_sum, row(1 / 4, 1 / 4, 1 / 4, 0)),
        (aggregate.prompt_mean_token_mean, row(1 / 6, 1 / 6, 1 / 8, 0)),
        (aggregate.prompt_mean_seq_mean, row(1 / 8, 1 / 4, 1 / 8, 0))):
      np.testing.assert_allclose(part(MASK, ONES, ALL, group), per_token, rtol=1e-6)

  def test_padding_rows_are_not_counted_and_empty_rows_are(self):
    where = jnp.array([True, True, True, False])
    constant = lambda where: aggregate.seq_sum_constant(MASK, ONES, where, constant=10.)
    np.testing.assert_allclose(constant(ALL)[0, 0], 1 / 40, rtol=1e-6)
    np.testing.assert_allclose(constant(where)[0, 0], 1 / 30, rtol=1e-6)

  def test_refusals(self):
    with pytest.raises(ValueError, match='constant=0'):
      aggregate.seq_sum_constant(MASK, ONES, ALL, constant=0)
    with pytest.raises(ValueError, match='prompt_mean_token_mean: group is None'):
      aggregate.prompt_mean_token_mean(MASK, ONES, ALL)


class FaultsTest(chex.TestCase):

  def test_fault_28_divide_by_the_global_token_count(self):
    """fault 28: micro A has 1 token of loss 4, B 3 tokens of loss 0."""
    mask = jnp.array([[1., 0, 0], [1, 1, 1]])
    terms = jnp.array([[4., 0, 0], [0, 0, 0]])
    for part, expected in (
        (aggregate.token_mean, 1.0),
        (lambda *a: aggregate.seq_sum_constant(*a, constant=4.), .5)):
      weights = part(mask, jnp.ones(2), jnp.ones(2, bool))
      whole = testing.objective(terms, weights)
      micro = sum(testing.objective(terms[i:i + 1], weights[i:i + 1]) for i in range(2))
      np.testing.assert_allclose((whole, micro), expected, rtol=1e-6)

  def test_fault_29_one_mask_in_numerator_and_divisor(self):
    """fault 29: 30 tokens, 5 masked, loss 1 each gives 1; nothing left gives 0."""
    mask = jnp.ones((6, 5)).at[2].set(0.0)
    ones = jnp.ones(6)
    for part in (aggregate.token_mean, aggregate.seq_mean_token_mean,
                 aggregate.prompt_mean_token_mean):
      weigh = lambda mask, part=part: part(mask, ones, ones > 0, jnp.zeros(6, jnp.int32))
      np.testing.assert_allclose(testing.objective(mask * 0 + 1, weigh(mask)), 1.0, rtol=1e-6)
      empty = weigh(jnp.zeros_like(mask))
      assert testing.objective(jnp.full((6, 5), jnp.nan), empty) == 0.0

  def test_no_gradient_reaches_where_the_weight_is_zero(self):
    weights = aggregate.token_mean(MASK, ONES, ALL)
    terms = jnp.where(MASK != 0, 1.0, jnp.nan)
    value, grad = jax.value_and_grad(testing.objective)(terms, weights)
    np.testing.assert_allclose(value, 1.0, rtol=1e-6)
    np.testing.assert_array_equal(grad, weights)
