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


def beyond(ratio: Array, advantages: Array, low: Array, high: Array) -> Array:
  """bool[n, T]: the ratio has left [low, high] on the side where A pushes it."""
  return ((advantages > 0) & (ratio > high)) | ((advantages < 0) & (ratio < low))


def held(
    ratio: Array, advantages: Array, low: Array, high: Array, cut: Array
) -> tuple[Array, Array]:
  """(objective, clipped): clip(rho, low, high) A, without gradient, where `cut`, else rho A.

  Selected rather than minimised: a tie of the two would halve the gradient.
  """
  limited = jnp.clip(ratio, low, high) * advantages
  return jnp.where(cut, limited, ratio * advantages), cut.astype(jnp.float32)


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
  cut = beyond(ratio, advantages, 1 - low, 1 + high)
  objective, clipped = held(ratio, advantages, 1 - low, 1 + high, cut)
  if dual:
    floored = (advantages < 0) & (ratio > dual)
    objective = jnp.where(floored, dual * advantages, objective)
    clipped = jnp.where(floored, 1.0, clipped)
  return objective, clipped


def no_clip(ratio: Array, advantages: Array) -> tuple[Array, Array]:
  """rho A, importance sampling without a trust region; clipped is all 0.

  Args and Returns: as `ppo_clip`.
  """
  chex.assert_equal_shape([ratio, advantages])
  return ratio * advantages, jnp.zeros_like(ratio)


def tbpo_clip(
    ratio: Array, advantages: Array, *, low: float = 3e-4, high: float = 4e-4,
    strict: bool = False,
) -> tuple[Array, Array]:
  """PPO's clip for A > 0; for A < 0 clip(rho, 1 - low, 1 + high) A, silent on both sides.

  A bad response that grows ever more likely is dropped: PPO's minimum would push it
  with a force that grows with rho. The force of a response is at most (1 + high) |A|.

  Args:
    ratio: f32[n, T], of a response for TBPO (`sequence_ratio`).
    advantages: f32[n, T].
    low, high: at least 0.
    strict: drop A > 0 with rho < 1 - low as well.

  Returns:
    (objective, clipped), as `ppo_clip`.

  Raises:
    ValueError: low or high is negative.

  Source: QaRL (arXiv 2604.07853), TBPO, whose mismatch weight is the correction
  `geometric_masked` with band [0.5, 2]. Provenance: abstract and two machine-made
  summaries read; reconstructed: bounds, the gate on the weight, positives as in PPO.
  """
  chex.assert_equal_shape([ratio, advantages])
  if low < 0 or high < 0:
    raise ValueError(f'tbpo_clip: low={low} and high={high} must be at least 0.')
  cut = beyond(ratio, advantages, 1 - low, 1 + high) | ((advantages < 0) & (ratio > 1 + high))
  if strict:
    cut |= (advantages > 0) & (ratio < 1 - low)
  return held(ratio, advantages, 1 - low, 1 + high, cut)


def sapo(
    ratio: Array, advantages: Array, *, tau_pos: float = 1.0, tau_neg: float = 1.05
) -> tuple[Array, Array]:
  """(4 / tau) sigmoid(tau (rho - 1)) A: a soft gate in place of the clip, cut nowhere.

  Its gradient on rho is 4 s (1 - s) A with s the sigmoid: A on policy, less the
  farther rho is from 1 on either side.

  Args:
    ratio, advantages: f32[n, T].
    tau_pos: tau where A > 0, above 0; a larger one tapers sooner.
    tau_neg: tau elsewhere, above 0.

  Returns:
    (objective, clipped); clipped is all 0. On policy the value is 2 A / tau.

  Raises:
    ValueError: a tau is not positive.

  Source: Soft Adaptive Policy Optimization (arXiv 2511.20347). Provenance: code read
  (volcengine/verl core_algos.py as forks have it, compute_policy_loss_sapo); paper's
  abstract. Weighed there by seq-mean-token-mean.
  """
  chex.assert_equal_shape([ratio, advantages])
  if tau_pos <= 0 or tau_neg <= 0:
    raise ValueError(f'sapo: tau_pos={tau_pos} and tau_neg={tau_neg} must be above 0.')
  tau = jnp.where(advantages > 0, tau_pos, tau_neg)
  gate = 4.0 / tau * jax.nn.sigmoid(tau * (ratio - 1.0))
  return gate * advantages, jnp.zeros_like(ratio)


CLIPS = spec.make_table(ppo_clip, no_clip, tbpo_clip, sapo)
