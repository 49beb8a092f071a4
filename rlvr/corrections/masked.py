"""Weights that drop what lies too far off: 0 outside a two-sided band.

A dropped token keeps its place in every divisor: it is a gate, not a mask, so a
batch with much mismatch takes a smaller step.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr.corrections import levels
from rlvr.losses import kl
from rlvr.losses import ratios

Array = jax.Array


def token_masked(
    old_logp: Array, rollout_logp: Array, mask: Array, *, low: float = 0.5, high: float = 5.0
) -> Array:
  """w = exp(old_logp - rollout_logp) where low <= w <= high, else 0, per token.

  Args:
    old_logp: f32[n, T], the sampling weights in the trainer's numerics.
    rollout_logp: f32[n, T], what the sampler recorded.
    mask: f32[n, T].
    low, high: the band, 0 <= low <= 1 <= high.

  Returns:
    f32[n, T] in {0} and [low, high]; 1 off the mask.

  Raises:
    ValueError: the band does not hold 1.

  Source: IcePop, in Every Step Evolves (arXiv 2510.18855); provenance: from
  knowledge.
  """
  levels.check_band('token_masked', low, high)
  return _masked(levels.token(old_logp, rollout_logp, mask), mask, low, high)


def sequence_masked(
    old_logp: Array, rollout_logp: Array, mask: Array, *, low: float = 0.1, high: float = 10.0
) -> Array:
  """w = exp(sum_t (old_logp - rollout_logp)) where low <= w <= high, else 0, per response.

  Args, Returns, Raises: as `token_masked`.

  Source: the response gate on the product of card ppo_ewma_decoupled, with its
  weight; code read (millioniron/ROLL: roll/utils/infer_correction.py).
  """
  levels.check_band('sequence_masked', low, high)
  return _masked(levels.sequence(old_logp, rollout_logp, mask), mask, low, high)


def geometric_masked(
    old_logp: Array, rollout_logp: Array, mask: Array, *, low: float = 0.999, high: float = 1.001
) -> Array:
  """w = exp(mean_t (old_logp - rollout_logp)) where low <= w <= high, else 0, per response.

  Args, Returns, Raises: as `token_masked`. The band is narrow because a mean over
  tokens is: it detects drift, not the spread around it.

  Source: the response gate on the geometric mean of card ppo_ewma_decoupled;
  code read (millioniron/ROLL: roll/utils/infer_correction.py).
  """
  levels.check_band('geometric_masked', low, high)
  return _masked(levels.geometric(old_logp, rollout_logp, mask), mask, low, high)


def kl_rejection(
    old_logp: Array, rollout_logp: Array, mask: Array, *, limit: float = 0.05
) -> Array:
  """1 where the response's mean k3 is at most `limit`, else 0 on all of it; no weight.

  k3 = e^d - d - 1 with d = old_logp - rollout_logp: it estimates
  KL(sampler || trainer) on the sampler's samples and, other than a geometric
  mean, does not let differences of both signs cancel.

  Args:
    old_logp, rollout_logp, mask: f32[n, T], as in `token_masked`.
    limit: nats a token, at least 0.

  Returns:
    f32[n, T] of 0 and 1; 1 off the mask.

  Raises:
    ValueError: limit is negative.

  Source: rejection of whole responses by their divergence; the estimator is
  Schulman's k3. Provenance: from knowledge; the default is ours.
  """
  if limit < 0:
    raise ValueError(f'kl_rejection: limit={limit} must be at least 0.')
  old, rolled = ratios.on_mask(old_logp, mask), ratios.on_mask(rollout_logp, mask)
  kept = groups.row_mean(kl.k3(rolled, old), mask) <= limit
  return levels.on_mask(jnp.broadcast_to(kept[:, None], mask.shape), mask)


def _masked(log_weight, mask, low, high):
  weight = jnp.exp(log_weight)
  inside = (weight >= low) & (weight <= high)
  return levels.on_mask(jnp.where(inside, weight, 0.0), mask)
