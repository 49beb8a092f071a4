"""How far a ratio may carry an advantage: the factor `clip` of a surrogate.

Each is (ratio f32[n, T], advantages f32[n, T]) -> (objective, clipped): the
objective f32[n, T], to be maximised, that stands for ratio * advantage, and
f32[n, T] of 0 and 1, 1 where its gradient is cut.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import spec

Array = jax.Array


def ppo_clip(
    ratio: Array,
    advantages: Array,
    *,
    low: float = 0.2,
    high: float = 0.2,
    dual: float = 0.0,
) -> tuple[Array, Array]:
  """min(rho A, clip(rho, 1 - low, 1 + high) A), and no less than dual * A where A < 0.

  Args:
    ratio: f32[n, T], finite.
    advantages: f32[n, T].
    low: 0 <= low; the lower edge is 1 - low.
    high: 0 <= high; DAPO's clip-higher is 0.28.
    dual: above 1, caps the loss of a token with A < 0 at -dual * A; 0 is off
      (3 in the code read).

  Returns:
    (objective, clipped). Clipped: A > 0 and rho > 1 + high, or A < 0 and
    rho < 1 - low, or, with dual, A < 0 and rho > dual. The gradient is rho A
    elsewhere and 0 there; at an edge, one of the two.

  Raises:
    ValueError: low, high or dual out of range.

  Source: PPO (arXiv 1707.06347), DeepSeekMath (arXiv 2402.03300), DAPO
  (arXiv 2503.14476). Provenance: code read (verl core_algos.py).
  """
  chex.assert_equal_shape([ratio, advantages])
  if low < 0 or high < 0:
    raise ValueError(f'ppo_clip: low={low} and high={high} must be at least 0.')
  if dual != 0 and dual <= 1:
    raise ValueError(f'ppo_clip: dual={dual} must be above 1, or 0 for off.')
  inside = jnp.clip(ratio, 1 - low, 1 + high)
  plain, limited = ratio * advantages, inside * advantages
  cut = ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))
  # Selected rather than minimised: a tie of the two would halve the gradient.
  objective = jnp.where(cut, limited, plain)
  if dual:
    floored = (advantages < 0) & (ratio > dual)
    objective = jnp.where(floored, dual * advantages, objective)
    cut = cut | floored
  return objective, cut.astype(jnp.float32)


def no_clip(ratio: Array, advantages: Array) -> tuple[Array, Array]:
  """rho A, importance sampling without a trust region; clipped is all 0.

  Args and Returns: as `ppo_clip`.
  """
  chex.assert_equal_shape([ratio, advantages])
  return ratio * advantages, jnp.zeros_like(ratio)


CLIPS = spec.make_table(ppo_clip, no_clip)
