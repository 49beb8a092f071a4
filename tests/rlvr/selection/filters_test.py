"""Row filters: DAPO's dynamic sampling and overlong filter."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import rewards
from rlvr import selection
from rlvr import testing
from rlvr import types


def test_mixed_groups_reads_the_raw_outcome():
  """All correct with unequal lengths has a spread in reward and no signal."""
  rollout = testing.make_rollout([[1, 1], [1, 0], [0, 0]], lengths=[1, 4, 1, 1, 2, 2])
  shaped = rewards.overlong_penalty(rollout, max_tokens=4, cache_tokens=2)
  rollout = rollout.replace(reward=shaped)
  assert shaped[0] != shaped[1]
  adv = advantages.grpo(rollout)
  assert adv[0] != 0
  np.testing.assert_array_equal(selection.mixed_groups(rollout, adv), [0, 0, 1, 1, 0, 0])


def test_mixed_groups_and_ungraded_rows():
  rollout = testing.make_rollout([[1, None, 0], [1, None], [None, None]], padding=1)
  zeros = jnp.zeros(8)
  np.testing.assert_array_equal(
      selection.mixed_groups(rollout, zeros), [1, 1, 1, 0, 0, 0, 0, 0])
  both = selection.mixed_groups(rollout, zeros, base=selection.graded_rows)
  np.testing.assert_array_equal(both, [1, 0, 1, 0, 0, 0, 0, 0])


def test_sampling_trace():
  """Outcomes 11,01 | 00,10 | 01,11: of the first two batches, prompts 1 and 3 are kept."""
  stream = testing.make_rollout([[1, 1], [0, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
  kept = np.asarray(selection.mixed_groups(stream, jnp.zeros(12))).reshape(6, 2)[:, 0]
  np.testing.assert_array_equal(np.flatnonzero(kept), [1, 3, 4])


def test_keep_rate():
  """1 - p^G - (1-p)^G by enumeration of all outcomes (p = .9, G = 8: .5695)."""
  outcomes = list(itertools.product([1, 0], repeat=8))
  rollout = testing.make_rollout(outcomes)
  kept = np.asarray(selection.mixed_groups(rollout, rollout.reward)).reshape(-1, 8)[:, 0]
  probability = np.array([.9 ** sum(o) * .1 ** (8 - sum(o)) for o in outcomes])
  np.testing.assert_allclose(np.sum(probability * kept), 1 - .9 ** 8 - .1 ** 8, rtol=1e-6)
  np.testing.assert_allclose(np.sum(probability * kept), .5695, atol=5e-5)


def test_overlong_filter_shrinks_divisors_and_leaves_statistics():
  """6 and 2 tokens with A = +-1: L = -(6-2)/8; the first filtered out: +1."""
  rollout = testing.make_rollout(
      [[1, 0]], lengths=[6, 2], stops=[types.BUDGET, types.STOP_TOKEN])
  adv = functools.partial(advantages.grpo, eps=0.)(rollout)
  np.testing.assert_allclose(adv, [1, -1], rtol=1e-6)  # the cut row counts in mean and std
  for part, expected in ((selection.keep_all, -.5), (selection.overlong_filter, 1.0)):
    row_weight = part(rollout, adv)
    where = rollout.where & (row_weight > 0)
    mask = jnp.where(where[:, None], rollout.mask, 0.)
    cell = testing.make_cell(adv, mask=mask)
    terms, _ = losses.surrogate(testing.make_output(rollout.old_logp), cell, {})
    weights = aggregate.token_mean(mask, row_weight, where)
    np.testing.assert_allclose(testing.objective(terms, weights), expected, rtol=1e-6)


def test_filters_nest():
  rollout = testing.make_rollout(
      [[1, 0], [1, 1]], stops=[types.BUDGET, types.ABORT, types.STOP_TOKEN, types.STOP_TOKEN])
  both = selection.mixed_groups(rollout, jnp.zeros(4), base=selection.overlong_filter)
  np.testing.assert_array_equal(both, [0, 1, 0, 0])


def test_live_groups_read_the_advantage():
  rollout = testing.make_rollout([[1, 0], [1, 1], [0, 0]], padding=1)
  adv = jnp.array([0., 0, .1, -.1, 0, 0, 0])
  np.testing.assert_array_equal(selection.live_groups(rollout, adv), [0, 0, 1, 1, 0, 0, 0])
  per_token = jnp.where(rollout.mask != 0, adv[:, None], jnp.nan)
  np.testing.assert_array_equal(selection.live_groups(rollout, per_token), [0, 0, 1, 1, 0, 0, 0])


def test_live_groups_are_the_mixed_ones_of_plain_grpo():
  rollout = testing.make_rollout([[1, 0, None], [1, 1], [None, None], [0]])
  adv = advantages.grpo(rollout)
  np.testing.assert_array_equal(
      selection.live_groups(rollout, adv), selection.mixed_groups(rollout, adv))


def test_drop_pivot_nests():
  rollout = testing.make_rollout(
      [[0, 0, 1]], stops=[types.STOP_TOKEN, types.BUDGET, types.STOP_TOKEN])
  both = selection.drop_pivot(rollout, jnp.zeros(3), base=selection.overlong_filter)
  np.testing.assert_array_equal(both, [0, 0, 1])
