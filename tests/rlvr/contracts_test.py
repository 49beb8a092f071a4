"""The contracts catch what they are for: each bad part below breaks one clause."""

import jax.numpy as jnp
import pytest

from rlvr import contracts
from rlvr import groups
from rlvr import losses
from rlvr import types


def _reward(rollout):
  return groups.zero_off(rollout.reward, types.graded(rollout))


@pytest.mark.parametrize('part', [
    lambda r: r.reward,  # NaN of ungraded rows
    lambda r: _reward(r) + 1,  # not 0 there
    lambda r: _reward(r)[:, None],  # shape
    lambda r: _reward(r).astype(jnp.bfloat16),  # type
    lambda r: jnp.cumsum(_reward(r)) * types.graded(r),  # depends on the order of rows
])
def test_bad_rewards(part):
  with pytest.raises(AssertionError):
    contracts.check_reward(part)


@pytest.mark.parametrize('part', [
    # Rewards of ungraded rows, here 0, enter the mean.
    lambda r: groups.zero_off(_reward(r) - groups.mean(_reward(r), r.group, r.where),
                              types.graded(r)),
    # The filled reward enters where it is not NaN.
    lambda r: groups.zero_off(
        _reward(r) + jnp.sum(jnp.nan_to_num(jnp.where(r.where, r.reward, 0))), types.graded(r)),
    # No guard for an all-equal group.
    lambda r: groups.zero_off((_reward(r) - groups.mean(_reward(r), r.group, types.graded(r)))
                              / groups.std(_reward(r), r.group, types.graded(r)),
                              types.graded(r)),
    lambda r: jnp.ones_like(r.mask) * types.graded(r)[:, None],  # off the mask
])
def test_bad_advantages(part):
  with pytest.raises(AssertionError):
    contracts.check_advantage(part)


def test_retracing_is_caught():
  once = contracts._once(lambda x: x)
  once(jnp.ones(2))
  once(jnp.zeros(2))
  with pytest.raises(AssertionError, match='traced twice'):
    once(jnp.zeros(3))


def _surrogate(change):
  def part(out, cell, knobs):
    terms, metrics = losses.surrogate(out, cell, knobs)
    return change(out, cell, terms, metrics)
  return part


@pytest.mark.parametrize('part', [
    # NaN in padding, multiplied instead of selected.
    _surrogate(lambda out, cell, terms, metrics: (out.logp * cell.mask, metrics)),
    # Not 0 off the mask.
    _surrogate(lambda out, cell, terms, metrics: (terms + 1, metrics)),
    # The selection comes after the exponential: finite value, NaN gradient.
    _surrogate(lambda out, cell, terms, metrics: (
        jnp.where((cell.mask != 0) & (jnp.abs(out.logp - cell.old_logp) < 20)
                  if cell.old_logp is not None else cell.mask != 0,
                  jnp.exp(out.logp * 1e3 * -1), 0.0), metrics)),
    # A metric with a gradient.
    _surrogate(lambda out, cell, terms, metrics: (
        terms, {'entropy': groups.zero_off(out.entropy, cell.mask)})),
    # A gradient at advantage 0.
    _surrogate(lambda out, cell, terms, metrics: (
        terms - groups.zero_off(out.entropy, cell.mask), metrics)),
])
def test_bad_losses(part):
  with pytest.raises(AssertionError):
    contracts.check_loss(part, advantage_only=True)


def test_bad_correction():
  with pytest.raises(AssertionError):
    contracts.check_correction(lambda old, rolled, mask: jnp.exp(old - rolled))
  with pytest.raises(AssertionError):  # a gradient
    contracts.check_correction(
        lambda old, rolled, mask: jnp.exp(losses.ratios.log_ratio(old, rolled, mask)))


@pytest.mark.parametrize('part', [
    lambda mask, row_weight, where, group: mask / jnp.sum(mask) * row_weight[:, None],
    # row_weight in the divisor.
    lambda mask, row_weight, where, group: jnp.where(
        where[:, None], mask * jnp.nan_to_num(row_weight)[:, None], 0.0) / jnp.maximum(
            jnp.sum(jnp.where(where, jnp.nan_to_num(row_weight), 0.0)), 1.0),
])
def test_bad_aggregates(part):
  with pytest.raises(AssertionError):
    contracts.check_aggregate(part)


def test_bad_selection():
  with pytest.raises(AssertionError):
    contracts.check_selection(lambda r, advantages: jnp.ones(r.where.shape))
  with pytest.raises(AssertionError):
    contracts.check_selection(lambda r, advantages: r.where * jnp.tanh(advantages - 1))
