"""Tokens whose update costs the most entropy: covariance of log-probability and advantage."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.losses import ratios

Array = jax.Array


def covariance(advantages: Array, logp: Array, mask: Array) -> Array:
  """(logp - mean logp)(A - mean A) f32[B, T] over the tokens of the mask; 0 off it.

  Its mean over tokens is, to first order, how much entropy a policy gradient step
  costs: likely tokens of good responses, unlikely ones of bad.
  """
  size = jnp.maximum(jnp.sum(mask != 0), 1)
  centred = lambda x: groups.zero_off(x - jnp.sum(groups.zero_off(x, mask)) / size, mask)
  return centred(ratios.on_mask(logp, mask)) * centred(groups.zero_off(advantages, mask))


def clip_cov(
    rollout: types.Rollout, *, base=group_relative.grpo, share: float = 2e-4, low: float = 1.0,
    high: float = 5.0,
) -> Array:
  """base's A, and 0 on a few tokens whose covariance is in (low, high): they do not learn.

  Args:
    rollout: reads old_logp (config.score_first), mask, graded, where, and what base reads.
    base: an advantage.
    share: of the batch's tokens, in [0, 1], that are cut: at least one, if the band has
      any; ties may cut more.
    low, high: of the covariance, low < high; in units of nats times A.

  Returns:
    f32[B, T]; the tokens cut are those of the largest covariance within the band.

  Raises:
    ValueError: an option out of range, or the rollout has no old_logp yet.

  Source: The Entropy Mechanism of RL (arXiv 2505.22617), Clip-Cov. Provenance: code read
  (forks of volcengine/verl core_algos.py, compute_policy_loss_clip_cov). There the
  tokens are drawn at random from the band, per micro-batch and of the current policy;
  here they are its largest, of the whole batch and the policy that wrote it, so that
  packing changes nothing.
  """
  if not 0 <= share <= 1 or not low < high:
    raise ValueError(f'clip_cov: share={share} must be in [0, 1] and low={low} below high={high}.')
  old = inputs.scored(rollout, 'old_logp', 'clip_cov')
  mask = jnp.where(types.graded(rollout)[:, None], rollout.mask, 0.0)
  advantages = base(rollout)
  if advantages.ndim == 1:
    advantages = jnp.broadcast_to(advantages[:, None], mask.shape)
  value = covariance(advantages, old, mask)
  inside = (mask != 0) & (value > low) & (value < high)
  num = jnp.maximum(jnp.floor(share * jnp.sum(mask != 0)), 1).astype(jnp.int32)
  ordered = jnp.sort(jnp.where(inside, value, -jnp.inf), axis=None, descending=True)
  cut = inside & (value >= ordered[num - 1])
  return groups.zero_off(jnp.where(cut, 0.0, advantages), mask)
