"""Importance weights with a ceiling: min(w, cap), of a token or of the whole response."""

import jax
import jax.numpy as jnp

from rlvr.corrections import levels

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
  return _truncated('token_truncated', levels.token(old_logp, rollout_logp, mask), mask, cap)


def sequence_truncated(
    old_logp: Array, rollout_logp: Array, mask: Array, *, cap: float = 2.0
) -> Array:
  """min(exp(sum_t (old_logp - rollout_logp)), cap) on each token of the response.

  The only level whose untruncated weight makes the gradient unbiased; its
  variance grows with length.

  Args, Returns, Raises: as `token_truncated`.

  Source: importance sampling of whole responses; provenance: from knowledge.
  """
  level = levels.sequence(old_logp, rollout_logp, mask)
  return _truncated('sequence_truncated', level, mask, cap)


def geometric_truncated(
    old_logp: Array, rollout_logp: Array, mask: Array, *, cap: float = 2.0
) -> Array:
  """min(exp(mean_t (old_logp - rollout_logp)), cap) on each token of the response.

  Args, Returns, Raises: as `token_truncated`.

  Source: the length-normalised weight of GSPO (arXiv 2507.18071), here between
  sampler and trainer; provenance: from knowledge.
  """
  level = levels.geometric(old_logp, rollout_logp, mask)
  return _truncated('geometric_truncated', level, mask, cap)


def _truncated(part, log_weight, mask, cap):
  if cap < 1:
    raise ValueError(f'{part}: cap={cap} must be at least 1.')
  return levels.on_mask(jnp.minimum(jnp.exp(log_weight), cap), mask)
