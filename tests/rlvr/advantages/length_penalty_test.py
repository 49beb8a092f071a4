"""The mastery-gated length penalty: worked values, softness, order, schedule."""

import functools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import selection
from rlvr import testing
from rlvr import types
from rlvr.advantages import length_penalty


def excess(right, length, *, mastery=1., slack=0., width=1.):
  num = len(right)
  return length_penalty.excess_length(
      jnp.array(length), jnp.array(right, bool), jnp.zeros(num, jnp.int32), jnp.ones(num, bool),
      mastery=mastery, slack=slack, width=width)


def make(right, lengths, **fields):
  return testing.make_rollout([right], lengths=lengths, **fields)


class ExcessLengthTest(chex.TestCase):

  def test_worked(self):
    right, length = [1, 1, 1, 0], [100, 150, 400, 50]
    np.testing.assert_allclose(excess(right, length, mastery=.75), [0, .5, 1, 0], rtol=1e-6)
    np.testing.assert_array_equal(excess(right, length), 0)
    np.testing.assert_allclose(
        excess([1, 1, 1], [100, 120, 180], slack=.25), [0, 0, .55], rtol=1e-5, atol=1e-6)

  def test_edges(self):
    np.testing.assert_array_equal(excess([0, 0], [5, 9], mastery=.1), 0)
    np.testing.assert_array_equal(excess([1, 0], [9, 5], mastery=.5), 0)
    np.testing.assert_array_equal(excess([1, 1, 1], [7, 7, 7]), 0)
    np.testing.assert_array_equal(excess([1, 1], [0, 1]), 0)  # L is at least 1


class OverthinkingTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make([1, 1, 1, 1], [100, 100, 150, 200])
    np.testing.assert_allclose(
        self.variant(advantages.overthinking)(rollout), [.075, .075, -.025, -.125], rtol=1e-4)

  def test_softness(self):
    rollout = make([1, 1, 1, 1], [100, 100, 100, 101])
    assert np.abs(advantages.overthinking(rollout)).max() < .002
    assert np.abs(advantages.overthinking(rollout, norm='reward')).max() > 1

  def test_without_a_penalty_it_is_grpo(self):
    rollout = testing.make_rollout([[1, 0, 0], [1, 1]], lengths=[1, 2, 3, 4, 5])
    np.testing.assert_array_equal(
        advantages.overthinking(rollout, coef=0.), advantages.grpo(rollout))

  def test_the_mean_of_a_group_is_zero(self):
    rollout = testing.make_rollout([[1, 1, 0], [1, 1]], lengths=[1, 2, 3, 4, 6])
    result = advantages.overthinking(rollout, mastery=.5)
    np.testing.assert_allclose((result[:3].sum(), result[3:].sum()), 0, atol=1e-6)

  def test_order(self):
    """Longer right answers get less, every right one more than every wrong one."""
    rollout = make([1, 1, 1, 1, 0, 0], [2, 3, 3, 9, 1, 4])
    result = np.asarray(advantages.overthinking(rollout, mastery=.5, coef=1.9))
    assert result[0] > result[1] == result[2] > result[3] > result[4] == result[5]

  def test_units_of_length_do_not_matter(self):
    right, lengths = [1, 1, 1], [2, 3, 7]
    np.testing.assert_allclose(
        advantages.overthinking(make(right, [3 * n for n in lengths])),
        advantages.overthinking(make(right, lengths)), atol=1e-6)

  def test_a_response_that_was_cut_off_is_wrong(self):
    stops = [types.STOP_TOKEN, types.STOP_TOKEN, types.BUDGET]
    cut = make([1, 1, 1], [2, 3, 7], stops=stops)
    np.testing.assert_allclose(
        advantages.overthinking(cut), advantages.grpo(make([1, 1, 0], [2, 3, 7])), rtol=1e-6)

  def test_schedule(self):
    rollout = make([1, 1], [2, 4])
    at = lambda step: rollout.replace(extras={'step': jnp.full(2, step, jnp.int32)})
    part = functools.partial(advantages.overthinking, start_step=10, end_step=20)
    full = advantages.overthinking(rollout)
    for step, share in ((9, 0), (10, 1), (19, 1), (20, 0)):
      np.testing.assert_allclose(part(at(step)), share * full, rtol=1e-6)
    endless = functools.partial(advantages.overthinking, start_step=10)
    np.testing.assert_allclose(endless(at(500)), full, rtol=1e-6)

  def test_mastered_groups_are_live(self):
    rollout = testing.make_rollout([[1, 1], [0, 0], [1, 1]], lengths=[2, 4, 2, 4, 3, 3])
    result = advantages.overthinking(rollout)
    np.testing.assert_array_equal(selection.live_groups(rollout, result), [1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(selection.mixed_groups(rollout, result), 0)

  def test_refusals(self):
    rollout = make([1, 1], [2, 4])
    for options, message in (
        (dict(coef=2.), 'coef=2'), (dict(mastery=0.), 'mastery=0'), (dict(slack=-1.), 'slack=-1'),
        (dict(width=0.), 'width=0'), (dict(norm='no'), "norm='no'"),
        (dict(start_step=5, end_step=3), 'end_step=3'), (dict(end_step=3), "extras\\['step'\\]")):
      with pytest.raises(ValueError, match=message):
        advantages.overthinking(rollout, **options)
