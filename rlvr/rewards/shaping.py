"""Rewards: the outcome, and what is added to it.

A reward is (rollout) -> f32[B], finite, 0 on rows that hold no response or have
no verdict. One that adds a term has an option `base`, the reward it adds to, so
that a config nests them: overlong_penalty(base=kl_in_reward(base=outcome)).
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import kl
from rlvr.losses import ratios

Array = jax.Array


def outcome(rollout: types.Rollout) -> Array:
  """Column 0 of the verdict, raw: r.

  Args:
    rollout: reads columns f32[B, S], graded, where.

  Returns:
    f32[B]; 0 on ungraded rows, whatever their columns hold.

  Raises:
    ValueError: the rollout has no columns.
  """
  if rollout.columns is None:
    raise ValueError('rollout.columns is None; a reward is formed after verification.')
  return groups.zero_off(rollout.columns[:, 0], types.graded(rollout))


def overlong_ramp(
    length: Array, *, max_tokens: int, cache_tokens: int, factor: float = 1.0
) -> Array:
  """0 up to max_tokens - cache_tokens, then linear to -factor at max_tokens and beyond.

  Args:
    length: i32[B], tokens.
    max_tokens: where the penalty is complete.
    cache_tokens: the width of the ramp; 0 is a step after max_tokens.
    factor: the largest penalty.

  Returns:
    f32[B] in [-factor, 0], never increasing with length.
  """
  over = (length - (max_tokens - cache_tokens)).astype(jnp.float32)
  if cache_tokens == 0:
    return jnp.where(over > 0, -factor, 0.0)
  return -factor * jnp.clip(over / cache_tokens, 0.0, 1.0)


def overlong_penalty(
    rollout: types.Rollout,
    *,
    base=outcome,
    max_tokens: int = 20480,
    cache_tokens: int = 4096,
    factor: float = 1.0,
) -> Array:
  """base(rollout) plus DAPO's soft penalty on long responses.

  Args:
    rollout: reads mask (a response's length is its policy tokens) and what
      `base` reads.
    base: a part of REWARDS.
    max_tokens, cache_tokens: tokens; 0 <= cache_tokens <= max_tokens.
    factor: the largest penalty, at least 0, on the scale of the outcome (the
      paper's outcome is +1 or -1).

  Returns:
    f32[B]; 0 on ungraded rows.

  Raises:
    ValueError: an option is out of range.

  Source: DAPO (arXiv 2503.14476). Provenance: code read
  (volcengine/verl: reward_manager/dapo.py); paper from knowledge. Use it or
  `selection.overlong_filter`, not both.
  """
  if not 0 <= cache_tokens <= max_tokens:
    raise ValueError(
        f'overlong_penalty: cache_tokens={cache_tokens} must lie in 0 ... '
        f'max_tokens={max_tokens}.')
  if factor < 0:
    raise ValueError(f'overlong_penalty: factor={factor} must be at least 0.')
  length = jnp.sum(rollout.mask != 0, axis=-1)
  penalty = overlong_ramp(
      length, max_tokens=max_tokens, cache_tokens=cache_tokens, factor=factor)
  return base(rollout) + groups.zero_off(penalty, types.graded(rollout))


def kl_in_reward(rollout: types.Rollout, *, base=outcome, coef: float = 0.03) -> Array:
  """base(rollout) - coef * sum_t mask * (old_logp - ref_logp): k1 on the sampling weights.

  Args:
    rollout: reads old_logp, ref_logp, mask and what `base` reads; needs
      config.score_first=True.
    base: a part of REWARDS.
    coef: beta, per nat, at least 0; 0 reads no log-probabilities.

  Returns:
    f32[B], without gradient; 0 on ungraded rows.

  Raises:
    ValueError: coef is negative, or a log-probability is not scored yet.

  Source: Back to Basics (arXiv 2402.14740). Provenance: code read
  (OpenRLHF experience_maker.py); paper from knowledge.
  """
  if coef < 0:
    raise ValueError(f'kl_in_reward: coef={coef} must be at least 0.')
  if coef == 0:
    return base(rollout)
  for field in ('old_logp', 'ref_logp'):
    if getattr(rollout, field) is None:
      raise ValueError(
          f'kl_in_reward reads rollout.{field}, which is None at this stage; '
          'set config.score_first=True (and keep a ref anchor).')
  old_logp = ratios.on_mask(rollout.old_logp, rollout.mask)
  penalty = jnp.sum(kl.k1(old_logp, ratios.on_mask(rollout.ref_logp, rollout.mask)), axis=-1)
  penalty = groups.zero_off(penalty, types.graded(rollout))
  return base(rollout) - jax.lax.stop_gradient(coef * penalty)


def at_last_token(reward: Array, mask: Array) -> Array:
  """f32[B, T]: reward f32[B] on the last token of the mask, 0 elsewhere.

  The last kept token, not the last place of the row, which may be padding or
  the environment's. An empty row has no place for its reward.
  """
  return reward[:, None] * groups.last_token(mask)
