"""EAPO: a success is credited where it was surprising, a failure where it was confident."""

import math

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import reweight

Array = jax.Array


def eapo(
    rollout: types.Rollout,
    *,
    base=group_relative.grpo,
    kappa: float = math.log(4.0),
    decay_steps: int = 0,
) -> Array:
  """A_t = A * w_t with w_t = s_t / mean_t s_t and s_t = exp(kappa * sign(A) * h_t).

  h is the entropy of the old policy between its 10% and 90% quantiles q over the
  policy tokens of the batch: h = clip((H - q10) / (q90 - q10 + 1e-8), 0, 1).

  Args:
    rollout: reads entropy, mask, graded, where and what `base` reads; needs
      config.score_first=True.
    base: an advantage of one number a response.
    kappa: at least 0; inside a response weights differ by at most e^kappa. 0 is
      `base`.
    decay_steps: kappa falls linearly to 0 over so many steps of training; 0 keeps
      it. Reads extras['step'].

  Returns:
    f32[B, T]; 0 off the mask. A response's sum over its tokens stays A * length,
    and no sign flips: credit is moved, not created. Constant entropy, and a
    response of one token, give w = 1.

  Raises:
    ValueError: an option is out of range, the entropy is not scored yet, or base
      gives token advantages.

  Source: Surprising Success, Repeated Failure (arXiv 2609.33781). Provenance:
  official code read (wgcyeo/EAPO, the trainer module); paper body not read.
  """
  if not (math.isfinite(kappa) and kappa >= 0):
    raise ValueError(f'eapo: kappa={kappa} must be finite and at least 0.')
  if decay_steps < 0:
    raise ValueError(f'eapo: decay_steps={decay_steps} must be at least 0.')
  advantages = base(rollout)
  if advantages.ndim != 1:
    raise ValueError('eapo: base must give one advantage a response, not one a token.')
  tokens = types.graded(rollout)[:, None] & (rollout.mask != 0)
  entropy = groups.zero_off(inputs.scored(rollout, 'entropy', 'eapo'), tokens)
  low, high = (order.quantile(entropy, tokens, q) for q in (0.1, 0.9))
  height = jnp.clip((entropy - low) / (high - low + 1e-8), 0.0, 1.0)
  strength = kappa * jnp.sign(advantages)
  if decay_steps:
    step = inputs.extra(rollout, 'step', 'eapo with decay_steps')
    strength *= 1 - jnp.clip(step / decay_steps, 0.0, 1.0)
  exponent = strength[:, None] * height
  return jax.lax.stop_gradient(advantages[:, None] * reweight.exponential(exponent, tokens))
