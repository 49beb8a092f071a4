"""Weights for the gap between the trainer that learns and the sampler that wrote.

Each is (old_logp, rollout_logp, mask), f32[n, T] all, -> f32[n, T]: 1 where the
two agree and off the mask, finite whatever they hold, without gradient. A loss
term multiplies its tokens by it; divisors do not move.
"""

import jax
import jax.numpy as jnp

from rlvr import spec
from rlvr.losses import ratios

Array = jax.Array


def none(old_logp: Array, rollout_logp: Array, mask: Array) -> Array:
  """1 everywhere: the sampler is taken to be the trainer's old policy."""
  del old_logp, rollout_logp
  return jnp.ones(mask.shape, jnp.float32)


def token_truncated(
    old_logp: Array, rollout_logp: Array, mask: Array, *, cap: float = 2.0
) -> Array:
  """min(exp(old_logp - rollout_logp), cap) per token: truncated importance sampling.

  Args:
    old_logp: f32[n, T], the sampling weights in the trainer's numerics.
    rollout_logp: f32[n, T], what the sampler recorded.
    mask: f32[n, T].
    cap: at least 1, so that agreement gives 1.

  Returns:
    f32[n, T] in (0, cap]; 1 off the mask. -inf on one side is a far-away finite
    number, on both sides agreement.

  Raises:
    ValueError: cap is below 1.

  Source: the standard TIS baseline, from card ais (`token_weight`, C = 2).
  """
  if cap < 1:
    raise ValueError(f'token_truncated: cap={cap} must be at least 1.')
  ratio = jnp.exp(ratios.log_ratio(old_logp, rollout_logp, mask))
  return jax.lax.stop_gradient(jnp.minimum(ratio, cap))


CORRECTIONS = spec.make_table(none, token_truncated)
