"""What is done to advantages after they are formed: (advantages, rollout) -> same shape.

Advantages are f32[B], one a row, or f32[B, T]; ungraded rows stay 0.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec
from rlvr import types
from rlvr.advantages import concentration

Array = jax.Array


def none(advantages: Array, rollout: types.Rollout) -> Array:
  """The advantages unchanged."""
  del rollout
  return advantages


def clip_advantages(
    advantages: Array, rollout: types.Rollout, *, low: float = -5.0, high: float = 5.0
) -> Array:
  """clip(A, low, high): bounds the pull of a rare outcome in a large group.

  Args:
    advantages: f32[B] or f32[B, T].
    rollout: not read.
    low, high: bounds, low <= 0 <= high so that 0 stays 0.

  Returns:
    f32 of the same shape.

  Raises:
    ValueError: the bounds do not hold 0 between them.
  """
  del rollout
  if not low <= 0 <= high:
    raise ValueError(f'clip_advantages: low={low} and high={high} must enclose 0.')
  return jnp.clip(advantages, low, high)


def whiten_batch(advantages: Array, rollout: types.Rollout) -> Array:
  """(A - mean) / sqrt(max(variance, 1e-8)) over the graded entries of the batch.

  Args:
    advantages: f32[B], over graded rows; f32[B, T], over their policy tokens.
    rollout: reads graded, where, mask.

  Returns:
    f32 of the same shape; 0 off those entries, and everywhere when they are
    all equal.

  Source: REINFORCE++ (arXiv 2501.03262), from its card; ddof 0.
  """
  where = types.graded(rollout)
  if advantages.ndim == 2:
    where = where[:, None] & (rollout.mask != 0)
  return groups.whiten(advantages, where)


TRANSFORMS = spec.make_table(none, clip_advantages, whiten_batch, concentration.reco_weight)
