"""MC-GRPO: the card's worked values and invariants, and the pivot that is not trained."""

import functools

import chex
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr import advantages
from rlvr import losses
from rlvr import selection
from rlvr import testing

plain = jax.jit(functools.partial(advantages.mc_grpo, scale='none'))


def keep(rollout):
  return np.asarray(selection.drop_pivot(rollout, jnp.zeros(rollout.where.shape)))


class McGrpoTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = testing.make_rollout([[.1, .5, .9], [0, .2, .3, .4, 1.]])
    result = self.variant(advantages.mc_grpo)(rollout)
    np.testing.assert_allclose(result[:3], [-.99751, 0, .99751], rtol=1e-5)
    np.testing.assert_allclose(
        result[3:], [-2.9703, -.9901, 0, .9901, 6.9307], rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(keep(rollout), [1, 0, 1, 1, 1, 0, 1, 1])

  def test_binary_rewards_have_no_deviation(self):
    rollout = testing.make_rollout([[0, 0, 1]])
    np.testing.assert_allclose(advantages.mc_grpo(rollout), [0, 0, 1000], rtol=1e-6)
    np.testing.assert_array_equal(keep(rollout), [0, 1, 1])
    safe = advantages.mc_grpo(rollout, fallback='std')
    np.testing.assert_allclose(safe, [0, 0, 2.1168], rtol=1e-4)
    np.testing.assert_allclose(advantages.mc_grpo(rollout, scale='std'), safe, rtol=1e-6)

  def test_fallback_leaves_a_deviation_alone(self):
    rollout = testing.make_rollout([[.1, .5, .9]])
    np.testing.assert_array_equal(
        advantages.mc_grpo(rollout, fallback='std'), advantages.mc_grpo(rollout))

  def test_all_equal_groups_lose_one_row_and_learn_nothing(self):
    rollout = testing.make_rollout([[.7] * 5, [.9] * 4])
    np.testing.assert_array_equal(advantages.mc_grpo(rollout), 0)
    np.testing.assert_array_equal(keep(rollout), [0, 1, 1, 1, 1, 0, 1, 1, 1])

  def test_the_pivot_is_sought_among_graded_rows(self):
    rollout = testing.make_rollout([[None, .5, .1, .9], [1], [None]], padding=1)
    np.testing.assert_array_equal(keep(rollout), [1, 0, 1, 1, 0, 1, 0])

  def test_adding_to_the_largest_changes_no_sign(self):
    rollout = testing.make_rollout([[0, .2, .3, .4, 1.]])
    high = rollout.replace(reward=rollout.reward.at[4].add(100.))
    others = np.arange(4)
    np.testing.assert_array_equal(
        np.sign(advantages.mc_grpo(high))[others], np.sign(advantages.mc_grpo(rollout))[others])
    mean = lambda r: np.sign(advantages.dr_grpo(r))[others]
    assert (mean(high) != mean(rollout)).any()

  @hypothesis.settings(max_examples=30, deadline=None)
  @hypothesis.given(st.lists(st.sampled_from([0., 1., .5, -2., .25]), min_size=7, max_size=7))
  def test_invariants(self, rewards):
    rollout = testing.make_rollout([rewards[:3], rewards[3:]])
    result = plain(rollout)
    moved = rollout.replace(reward=rollout.reward + 2)
    np.testing.assert_array_equal(plain(moved), result)
    np.testing.assert_array_equal(plain(rollout.replace(reward=4 * rollout.reward)), 4 * result)
    weight = keep(rollout)
    for rows in (slice(0, 3), slice(3, 7)):
      assert np.sum(weight[rows] == 0) == 1
    assert np.sum(result[:3] > 0) <= 1 and np.sum(result[:3] < 0) <= 1
    np.testing.assert_array_equal(np.asarray(result)[weight == 0], 0)

  def test_odd_and_even_groups(self):
    """Odd: as many above as below. Even: the lower of the middle two, one more above."""
    odd = plain(testing.make_rollout([[1, 2, 3, 4, 5]]))
    even = plain(testing.make_rollout([[1, 2, 3, 4]]))
    np.testing.assert_array_equal(odd, [-2, -1, 0, 1, 2])
    np.testing.assert_array_equal(even, [-1, 0, 1, 2])

  def test_no_gradient_reaches_the_pivot(self):
    rollout = testing.make_rollout([[.1, .5, .9]])
    cell = testing.make_cell(advantages.mc_grpo(rollout), mask=rollout.mask)
    loss = lambda logp: testing.objective(
        losses.surrogate(testing.make_output(logp), cell, {})[0], cell.weights['loss'])
    grad = jax.grad(loss)(rollout.old_logp)
    np.testing.assert_array_equal(grad[1], 0)
    assert (grad[0] != 0).all() and (grad[2] != 0).all()

  def test_signs_against_an_infinite_group(self):
    """Rewards near .3 with 15% outliers at 1: the median flips fewer signs than the mean.

    The mean of an infinite group is .405, its lower median the 50/85 quantile of
    the bulk, .3 + .05 * .2229.
    """
    rng = np.random.default_rng(0)
    num, size = 4000, 3
    rewards = np.where(
        rng.uniform(size=num * size) < .15, 1., .3 + .05 * rng.normal(size=num * size))
    rollout = testing.make_rollout([[0, 0]], padding=num * size - 2).replace(
        where=jnp.ones(num * size, bool), graded=jnp.ones(num * size, bool),
        group=jnp.repeat(jnp.arange(num), size), reward=jnp.asarray(rewards, jnp.float32))
    flips = lambda part, limit: np.mean(np.asarray(part(rollout)) * (rewards - limit) < 0)
    assert flips(plain, .3111) < .7 * flips(advantages.dr_grpo, .405)

  def test_refusals(self):
    rollout = testing.make_rollout([[1, 0]])
    for options, message in ((dict(scale='max'), "scale='max'"), (dict(eps=0.), 'eps=0.0'),
                             (dict(fallback='mad'), "fallback='mad'")):
      with pytest.raises(ValueError, match=message):
        advantages.mc_grpo(rollout, **options)
