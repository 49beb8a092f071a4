"""Rollout -> Batch: weights before packing, what is left out, minibatches, scores."""

import functools

import direct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import corrections
from rlvr import losses
from rlvr import masks
from rlvr import rewards
from rlvr import selection
from rlvr import types
from rlvr.train import prepare

# Ragged and uneven, an all-equal group, an empty row, an ungraded row, padding rows.
REWARDS = [[1, 0, 0], [1, 1], [0, 1, None, 1], [0.5], [2, 0]]
LENGTHS = [3, 8, 1, 2, 2, 5, 0, 4, 7, 6, 1, 3]
SMALL = direct.make_layout(devices=2, num_cells=4, rows=4, prompts=2)
WHOLE = direct.make_layout(num_cells=1, rows=16, prompts=8)


@functools.cache
def make_rollout():
  return direct.make_rollout(REWARDS, lengths=LENGTHS, max_tokens=8, padding=2)


def prepared(recipe, layout, rollout=None, state=None):
  rollout = rollout or make_rollout()
  state = state or direct.make_state(rollout)
  return jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))(rollout, state)


def rows_of(batch):
  """Row numbers in a batch, and the given field by row number."""
  where = np.asarray(batch.where)
  return np.asarray(batch.extras['row'])[where], where


def by_row(batch, name):
  rows, where = rows_of(batch)
  return dict(zip(rows.tolist(), np.asarray(getattr(batch, name))[where], strict=True))


class TestWeights:

  @pytest.mark.parametrize('weigh', aggregate.AGGREGATES.values())
  def test_no_divisor_depends_on_packing(self, weigh):
    recipe = direct.make_recipe(weigh=weigh)
    small, metrics, rollout = direct.gradient(make_rollout(), recipe, SMALL)
    whole, whole_metrics, _ = direct.gradient(make_rollout(), recipe, WHOLE)
    where = jnp.asarray(rollout.where)
    weights = weigh(rollout.mask, jnp.ones(14), where, rollout.group)
    expected = -np.asarray(weights * rollout.advantages)
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_allclose(small, expected, atol=1e-6)
    assert metrics['pack_left_out'] == whole_metrics['pack_left_out'] == 0
    assert np.abs(expected).max() > 1e-5
    assert metrics['loss'] == pytest.approx(whole_metrics['loss'], rel=1e-5)

  def test_a_filtered_row_leaves_the_divisors_and_a_scaled_one_does_not(self):
    def half_of_first(rollout, advantages):
      del advantages
      weight = rollout.where.astype(jnp.float32)
      return weight.at[0].set(0.5).at[1].set(0.0)  # scaled; filtered

    moved, metrics, rollout = direct.gradient(
        make_rollout(), direct.make_recipe(selection=half_of_first), SMALL)
    num_tokens = sum(LENGTHS) - LENGTHS[1]
    advantage = np.asarray(rollout.advantages)
    assert not moved[1].any()
    np.testing.assert_allclose(moved[0, :3], -0.5 * advantage[0, :3] / num_tokens, atol=1e-6)
    np.testing.assert_allclose(moved[2, :1], -advantage[2, :1] / num_tokens, atol=1e-6)
    assert metrics['selected'] == pytest.approx(11 / 12)

  def test_each_term_has_its_own_tokens_and_average(self):
    term = lambda weigh, mask: prepare.Term(losses.policy_gradient, mask, weigh)
    rollout = direct.make_rollout([[1, 0]], masks=[[1, 1, 0], [0, 1]])
    recipe = direct.make_recipe(advantage_only=False, terms={
        'pg': term(aggregate.token_mean, masks.policy_tokens),
        'env': term(aggregate.seq_sum, masks.valid_tokens)})
    (batch,), _, _ = prepared(recipe, direct.make_layout(num_cells=1), rollout)
    rows, where = rows_of(batch)
    order = np.argsort(rows)
    weights = {k: np.asarray(w)[where][order] for k, w in batch.weights.items()}
    np.testing.assert_allclose(weights['pg'], np.array([[1, 1, 0], [0, 1, 0]]) / 3, rtol=1e-6)
    np.testing.assert_allclose(weights['env'], np.array([[1, 1, 1], [1, 1, 0]]) / 2, rtol=1e-6)


class TestLeftOut:

  def test_rows_that_cannot_act_are_not_computed_and_nothing_changes(self):
    every = direct.make_recipe(advantage_only=False)
    only = direct.make_recipe(advantage_only=True)
    (full,), _, _ = prepared(every, SMALL)
    (packed,), _, _ = prepared(only, SMALL)
    # The all-equal group, the sole member, the ungraded and the empty row cannot act.
    assert set(rows_of(full)[0]) == set(range(12)) - {6}
    assert set(rows_of(packed)[0]) == {0, 1, 2, 5, 8, 10, 11}
    assert int(jnp.sum(packed.used)) < int(jnp.sum(full.used))
    np.testing.assert_allclose(direct.gradient(make_rollout(), only, SMALL)[0],
                               direct.gradient(make_rollout(), every, SMALL)[0], atol=1e-7)

  def test_a_layout_that_is_too_small_is_counted(self):
    tight = direct.make_layout(num_cells=1, rows=4, prompts=2)
    (batch,), _, metrics = prepared(direct.make_recipe(advantage_only=False), tight)
    kept = len(rows_of(batch)[0])
    assert 0 < kept <= 4
    assert float(metrics['pack_left_out']) == 11 - kept

  def test_one_index_for_every_field(self):
    # Fault 16: after filtering, every field is still the row's own.
    (batch,), rollout, _ = prepared(direct.make_recipe(selection=selection.mixed_groups), SMALL)
    assert 0 < len(rows_of(batch)[0]) < 12
    for name in ('tokens', 'mask', 'valid', 'rollout_logp', 'advantages', 'reward',
                 'temperature', 'version'):
      for row, value in by_row(batch, name).items():
        np.testing.assert_array_equal(value, np.asarray(getattr(rollout, name))[row], name)

  def test_nan_rewards_of_ungraded_rows_stay_out(self):
    # Fault 14: one verdict and seven outages.
    rollout = direct.make_rollout([[1] + [None] * 7])
    moved, metrics, rollout = direct.gradient(
        rollout, direct.make_recipe(advantage=advantages.grpo), WHOLE)
    assert not np.asarray(rollout.advantages).any() and not moved.any()
    assert metrics['loss'] == 0.0 and metrics['ungraded'] == 7 / 8


class TestMinibatches:

  def test_split_first_then_weigh(self):
    recipe = direct.make_recipe(minibatches=2, advantage_only=False)
    batches, rollout, metrics = prepared(recipe, SMALL)
    groups, rows = [], []
    for batch in batches:
      mine = rows_of(batch)[0]
      rows += mine.tolist()
      groups.append(set(np.asarray(rollout.group)[mine].tolist()))
      # Its own divisor: the weights of each minibatch sum to 1.
      assert float(jnp.sum(batch.weights['pg'])) == pytest.approx(1.0, rel=1e-6)
    assert sorted(rows) == [r for r in range(12) if r != 6]  # once each; 6 has no token
    assert not groups[0] & groups[1] and sorted(map(len, groups)) == [2, 3]
    assert float(metrics['pack_left_out']) == 0

  def test_the_split_is_a_function_of_key_and_step(self):
    recipe = direct.make_recipe(minibatches=2, advantage_only=False)
    prep = jax.jit(prepare.make_prepare(recipe, direct.POLICY, SMALL))
    state = direct.make_state(make_rollout())
    split = lambda state: frozenset(rows_of(prep(make_rollout(), state)[0][0])[0].tolist())
    assert split(state) == split(state)
    assert len({split(state.replace(step=jnp.int32(i))) for i in range(6)}) > 1


class TestScores:

  def _state(self, rollout):
    reference = direct.make_state(rollout, seed=9).params
    return direct.make_state(rollout, anchors={'ref': reference}, knobs={
        'coef_pg': 1.0, 'coef_kl': 0.1})

  def test_old_log_probs_are_the_trainers_and_the_correction_is_theirs(self):
    rollout = make_rollout()
    recipe = direct.make_recipe(
        score_old=True, correction=functools.partial(corrections.token_truncated, cap=1.5),
        advantage_only=False)
    state = self._state(rollout)
    (batch,), _, _ = prepared(recipe, SMALL, rollout, state)
    logp, mask = np.asarray(state.params['logp']), np.asarray(rollout.mask)
    for row, old in by_row(batch, 'old_logp').items():
      np.testing.assert_array_equal(old, logp[row] * (mask[row] != 0))
    ratio = np.exp(logp - np.asarray(rollout.rollout_logp))
    cut = 0
    for row, value in by_row(batch, 'correction').items():
      expected = np.where(mask[row] != 0, np.minimum(ratio[row], 1.5), 1.0)
      cut += (expected == 1.5).sum()
      np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert cut

  def test_nothing_is_scored_that_is_not_asked_for(self):
    (batch,), rollout, _ = prepared(direct.make_recipe(), SMALL)
    assert batch.old_logp is None and batch.ref_logp is None and batch.correction is None
    assert rollout.old_logp is None

  def test_the_reference_is_the_anchor(self):
    rollout = make_rollout()
    state = self._state(rollout)
    recipe = direct.make_recipe(score_ref=True, advantage_only=False)
    (batch,), _, _ = prepared(recipe, SMALL, rollout, state)
    reference = np.asarray(state.anchors['ref']['logp'])
    for row, value in by_row(batch, 'ref_logp').items():
      np.testing.assert_array_equal(value, reference[row] * np.asarray(rollout.valid)[row])

  def test_score_first_serves_a_penalty_in_the_reward(self):
    rollout = make_rollout()
    state = self._state(rollout)
    penalised = functools.partial(rewards.kl_in_reward, coef=0.1)
    recipe = direct.make_recipe(reward=penalised, score_first=True, score_ref=True,
                                score_old=True, advantage_only=False)
    (batch,), out, _ = prepared(recipe, SMALL, rollout, state)
    logp, ref = (np.asarray(p['logp']) for p in (state.params, state.anchors['ref']))
    gap = ((logp - ref) * np.asarray(rollout.mask)).sum(axis=1)
    graded = np.asarray(types.graded(rollout))
    expected = np.where(graded, np.nan_to_num(np.asarray(rollout.columns)[:, 0]) - 0.1 * gap, 0.0)
    np.testing.assert_allclose(np.asarray(out.reward)[graded], expected[graded], atol=1e-5)
    np.testing.assert_array_equal(
        np.asarray(out.old_logp)[graded], (logp * np.asarray(rollout.valid))[graded])
    for row, old in by_row(batch, 'old_logp').items():
      np.testing.assert_array_equal(old, np.asarray(out.old_logp)[row])
    # Without it, the part says what to set.
    with pytest.raises(ValueError, match='config.score_first=True'):
      prepared(recipe._replace(score_first=False), SMALL, rollout, state)


class TestOrder:

  def test_transforms_see_advantages_in_the_order_written(self):
    double = lambda a, rollout: 2 * a
    shift = lambda a, rollout: a + rollout.where
    _, first, _ = prepared(direct.make_recipe(transforms=(double, shift)), SMALL)
    _, second, _ = prepared(direct.make_recipe(transforms=(shift, double)), SMALL)
    base = np.asarray(advantages.dr_grpo(make_rollout()))[:12]
    np.testing.assert_allclose(first.advantages[:12, 0], 2 * base + 1, rtol=1e-6)
    np.testing.assert_allclose(second.advantages[:12, 0], 2 * (base + 1), rtol=1e-6)

  def test_advantages_per_token_are_kept(self):
    per_token = lambda rollout: jnp.cumsum(rollout.mask, axis=1)
    _, out, _ = prepared(direct.make_recipe(advantage=per_token), SMALL)
    np.testing.assert_array_equal(out.advantages, np.cumsum(make_rollout().mask, axis=1))
