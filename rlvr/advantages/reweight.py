"""Token weights that move credit inside a response and create none."""

import jax
import jax.numpy as jnp

from rlvr import groups

Array = jax.Array


def mass_preserving(raw: Array, mask: Array, unit: Array | None = None) -> Array:
  """w = raw / (mean of raw over the unit's tokens), so that the mean of w is 1.

  Args:
    raw: f32[B, T], positive on the mask.
    mask: [B, T], 0 or False off it.
    unit: i32[B], ids 0 <= unit < B of what keeps its mass, such as a trajectory
      of several rows; None for each row on its own.

  Returns:
    f32[B, T]; 0 off the mask. A unit without tokens has none to weigh.
  """
  kept = (mask != 0).astype(jnp.float32)
  total, size = groups.row_sum(raw, kept), jnp.sum(kept, axis=-1)
  if unit is not None:
    every = jnp.ones(unit.shape, bool)
    total, size = groups.sum(total, unit, every), groups.sum(size, unit, every)
  mean = total / jnp.maximum(size, 1.0)
  return groups.zero_off(raw, kept) / jnp.where(mean > 0, mean, 1.0)[:, None]


def exponential(exponent: Array, tokens: Array) -> Array:
  """mass_preserving(exp(exponent)) within each row, in range for any finite exponent.

  Args:
    exponent: f32[B, T], finite on `tokens`.
    tokens: bool[B, T].

  Returns:
    f32[B, T]; 0 off `tokens`. A constant exponent gives 1.
  """
  # The row's largest cancels in the ratio.
  top = jnp.max(exponent, axis=1, keepdims=True, where=tokens, initial=-jnp.inf)
  raw = jnp.exp(jnp.where(tokens, exponent - jnp.where(jnp.isfinite(top), top, 0.0), 0.0))
  return mass_preserving(raw, tokens)
