"""How far the trainer's log-probabilities lie from the sampler's: per token, or per response.

All three are f32[n, T], 0 off the mask and where the two agree, clamped to +-20
nats, so that their exponentials are finite whatever the arrays hold.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr.losses import ratios

Array = jax.Array

token = ratios.log_ratio  # (old_logp, rollout_logp, mask): each token's own difference


def sequence(old_logp: Array, rollout_logp: Array, mask: Array) -> Array:
  """The response's sum of differences, on each of its tokens: its log importance weight."""
  total = groups.row_sum(token(old_logp, rollout_logp, mask), mask)
  bounded = jnp.clip(total, -ratios.MAX_LOG_RATIO, ratios.MAX_LOG_RATIO)
  return groups.zero_off(jnp.broadcast_to(bounded[:, None], mask.shape), mask)


def geometric(old_logp: Array, rollout_logp: Array, mask: Array) -> Array:
  """The response's mean difference, on each of its tokens."""
  mean = ratios.sequence_log_ratio(old_logp, rollout_logp, mask)
  return groups.zero_off(jnp.broadcast_to(mean[:, None], mask.shape), mask)


def on_mask(weight: Array, mask: Array) -> Array:
  """The weight f32[n, T] on the mask, 1 off it, without gradient."""
  return jax.lax.stop_gradient(jnp.where(mask != 0, weight, 1.0).astype(jnp.float32))


def check_band(part: str, low: float, high: float) -> None:
  """Raises: ValueError unless 0 <= low <= 1 <= high, so that agreement is kept."""
  if not 0 <= low <= 1 <= high:
    raise ValueError(f'{part}: low={low} and high={high} must enclose 1, low at least 0.')
