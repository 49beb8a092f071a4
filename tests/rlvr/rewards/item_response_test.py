"""Item response theory: the card's worked values and what must hold."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr.rewards import item_response

A, B = jnp.array([2., 1, .5]), jnp.array([0., 1, -1])


@functools.partial(jax.jit)
def quality(verdicts, a=A, b=B, judged=None):
  judged = jnp.ones(verdicts.shape, bool) if judged is None else judged
  return item_response.quality(verdicts, judged, a, b)


ALL = jnp.array(list(itertools.product([0., 1.], repeat=3)))


class QualityTest(chex.TestCase):

  @chex.all_variants
  def test_one_sharp_criterion_beats_two_blunt_ones(self):
    verdicts = jnp.array([[1., 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]])
    result = self.variant(item_response.quality)(verdicts, jnp.ones((4, 3), bool), A, B)
    np.testing.assert_allclose(result, [.18646, .04081, 1.02413, -.77580], atol=1e-5)

  def test_a_single_criterion(self):
    """z = phi(z) / Phi(z)."""
    result = quality(jnp.array([[1., 9, 9]]), jnp.ones(3), jnp.zeros(3),
                     jnp.array([[True, False, False]]))
    np.testing.assert_allclose(result, .50605, atol=1e-5)

  def test_the_score_is_zero_there_and_a_grid_agrees(self):
    result = quality(ALL)
    judged = jnp.ones(ALL.shape, bool)
    np.testing.assert_allclose(item_response.score(ALL, judged, A, B, result), 0, atol=2e-6)
    grid = jnp.linspace(-3, 3, 6001)
    for verdicts, z in zip(ALL, result, strict=True):
      on_grid = jnp.broadcast_to(verdicts[None], (grid.shape[0], 3))
      posterior = jnp.sum(item_response.log_likelihood(on_grid, A, B, grid), axis=1) - grid**2 / 2
      np.testing.assert_allclose(grid[jnp.argmax(posterior)], z, atol=1.1e-3)

  def test_a_verdict_that_turns_favourable_raises_it(self):
    result = np.asarray(quality(ALL)).reshape(2, 2, 2)
    for axis in range(3):
      assert (np.diff(result, axis=axis) > 1e-3).all()

  def test_order_and_sign(self):
    order = jnp.array([2, 0, 1])
    np.testing.assert_allclose(quality(ALL[:, order], A[order], B[order]), quality(ALL), atol=1e-6)
    np.testing.assert_allclose(quality(1 - ALL, A, -B), -quality(ALL), atol=1e-6)

  def test_equal_criteria_rank_as_the_sum(self):
    result = quality(ALL, jnp.full(3, .8), jnp.full(3, .3))
    met = np.asarray(ALL.sum(axis=1)).astype(int)
    levels = [np.asarray(result)[met == n] for n in range(4)]
    for level in levels:
      np.testing.assert_allclose(level, level[0], atol=1e-6)
    assert (np.diff([level[0] for level in levels]) > .1).all()

  def test_nothing_judged_is_zero_and_what_is_not_judged_is_not_read(self):
    judged = jnp.array([[True, False, False]] * 2 + [[False] * 3])
    verdicts = jnp.array([[1., jnp.nan, 7], [1, 0, 0], [jnp.nan] * 3])
    result = quality(verdicts, A, B, judged)
    assert result[0] == result[1] and result[2] == 0

  def test_soft_verdicts_lie_between(self):
    soft = quality(jnp.array([[0., 0, 0], [.5, 0, 0], [1, 0, 0]]))
    assert soft[0] < soft[1] < soft[2]

  def test_extreme_items_stay_finite(self):
    """Sharp, hard and met by all: the mode lies beyond the first bracket."""
    a, b = jnp.full(3, 50.0), jnp.full(3, 6.0)
    result = quality(jnp.array([[1., 1, 1], [0, 0, 0]]), a, b)
    assert 5.9 < result[0] < 7 and abs(result[1]) < 1e-3

  def test_rows_may_have_criteria_of_their_own(self):
    a, b = (jnp.broadcast_to(x[None], ALL.shape) for x in (A, B))
    np.testing.assert_array_equal(quality(ALL, a, b), quality(ALL))


class InformationTest(chex.TestCase):

  def test_worked(self):
    """4 phi(0)^2 / .25 = 2.54648; the two best of the three at z = 0 are 0 and 1."""
    result = item_response.information(A, B, jnp.zeros(1))[0]
    np.testing.assert_allclose(result[0], 2.54648, atol=1e-5)
    assert set(np.argsort(-np.asarray(result))[:2]) == {0, 1}

  def test_the_best_linear_score_has_the_fisher_information(self):
    """(sum w P')^2 / sum w^2 P (1 - P) is largest at w = P' / (P (1 - P))."""
    rng = np.random.default_rng(0)
    for z in (-1.5, 0.0, .7):
      x = np.asarray(A) * (z - np.asarray(B))
      p = np.asarray(jax.scipy.stats.norm.cdf(x), np.float64)
      slope = np.asarray(A) * np.exp(-x**2 / 2) / np.sqrt(2 * np.pi)
      ratio = lambda w, p=p, slope=slope: (w @ slope)**2 / (w**2 @ (p * (1 - p)))
      best = ratio(slope / (p * (1 - p)))
      information = item_response.information(A, B, jnp.array([z]))
      np.testing.assert_allclose(best, jnp.sum(information), rtol=1e-4)
      assert all(ratio(rng.normal(size=3)) <= best * (1 + 1e-6) for _ in range(100))

  def test_far_out_it_is_small_and_finite(self):
    result = item_response.information(jnp.full(2, 5.), jnp.zeros(2), jnp.array([-9., 9]))
    assert bool(jnp.isfinite(result).all()) and result.max() < 1e-6


class ChooseCriteriaTest(chex.TestCase):

  def choose(self, verdicts, budget, group=None, where=None):
    rows = verdicts.shape[0]
    group = jnp.zeros(rows, jnp.int32) if group is None else jnp.array(group)
    where = jnp.ones(rows, bool) if where is None else jnp.array(where)
    return np.asarray(item_response.choose_criteria(verdicts, A, B, group, where, budget))

  def test_the_first_is_the_most_informative_at_zero(self):
    np.testing.assert_array_equal(self.choose(ALL, 1), [[True, False, False]] * 8)
    np.testing.assert_array_equal(self.choose(ALL, 2)[:, 0], True)

  def test_a_group_is_judged_alike_and_calls_are_rows_times_budget(self):
    group = [0, 0, 0, 1, 1, 1, 1, 2]
    for budget in (0, 1, 2, 3, 9):
      asked = self.choose(ALL, budget, group)
      assert (asked.sum(axis=1) == min(budget, 3)).all()
      for rows in ([0, 1, 2], [3, 4, 5, 6]):
        assert (asked[rows] == asked[rows[0]]).all()

  def test_the_second_depends_on_what_the_first_said(self):
    """Good answers are asked the hard criterion, poor ones the easy one."""
    b = jnp.array([0., 2, -2])
    one = jnp.ones(3)
    ask = lambda y: np.asarray(item_response.choose_criteria(
        jnp.full((2, 3), y), one, b, jnp.zeros(2, jnp.int32), jnp.ones(2, bool), 2))[0]
    np.testing.assert_array_equal(ask(1.0), [True, True, False])
    np.testing.assert_array_equal(ask(0.0), [True, False, True])

  def test_verdicts_that_are_not_asked_for_are_not_read(self):
    hidden = ALL.at[:, 1:].set(jnp.nan)
    np.testing.assert_array_equal(self.choose(hidden, 1), self.choose(ALL, 1))

  def test_rows_outside_are_not_judged_and_have_no_say(self):
    where = [True, True] + [False] * 6
    asked = self.choose(ALL, 2, where=where)
    assert not asked[2:].any()
    np.testing.assert_array_equal(asked[:2], self.choose(ALL[:2], 2))


class OrientTest(chex.TestCase):

  def test_worked(self):
    np.testing.assert_array_equal(
        item_response.orient(jnp.array([[1., 1, 0]]), (5, -3, -2)), [[1, 0, 1]])

  def test_points_that_do_not_fit(self):
    for points in ((1,), (1, 0, 2)):
      with pytest.raises(ValueError, match='one number other than 0 for each of the 3'):
        item_response.orient(ALL, points)


def test_the_simulation_of_the_card():
  """Correlation with true quality: plain sum < RRT; half the budget, chosen, comes near."""
  rng = np.random.default_rng(0)
  a = np.exp(rng.normal(0, .8, 12)).astype(np.float32)
  b = rng.normal(0, 1, 12).astype(np.float32)
  z = rng.normal(size=1200).astype(np.float32)
  p = np.asarray(jax.scipy.stats.norm.cdf(a * (z[:, None] - b)))
  verdicts = jnp.asarray((rng.uniform(size=p.shape) < p).astype(np.float32))
  group = jnp.arange(1200) // 6
  chosen = item_response.choose_criteria(verdicts, a, b, group, jnp.ones(1200, bool), 6)
  drawn = jnp.asarray(np.argsort(rng.uniform(size=(200, 12)), axis=1)[np.arange(1200) // 6] < 6)
  correlation = lambda x: np.corrcoef(np.asarray(x), z)[0, 1]
  plain = correlation(verdicts.sum(axis=1))
  full, half, random = (correlation(quality(verdicts, a, b, judged)) for judged in (
      jnp.ones(verdicts.shape, bool), chosen, drawn))
  assert plain < full - .02 and random < half - .02 and half > plain - .01
