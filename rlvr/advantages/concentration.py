"""Responses that the policy already says often count for less: ReCo's response weight."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs
from rlvr.losses import ratios

Array = jax.Array

KINDS = ('raw', 'presence')
PROBABILITIES = ('geo', 'seq')


def response_weight(
    rollout: types.Rollout, *, kind: str, prob: str, cap: float, part: str
) -> Array:
  """How much a response counts, from its probability p under the old policy; f32[B].

    raw       1 / (G p): expected G p times in its group of G, it counts once
    presence  (1 - (1 - p)^G) / (G p), in [1/G, 1]: by the chance to appear at all

  Args:
    rollout: reads old_logp, mask, group, graded, where.
    kind: 'raw' or 'presence'.
    prob: p is the exponential of the mean log-probability of a token ('geo', 1 for an
      empty response) or of their sum ('seq').
    cap: the largest weight, above 0.
    part: who asks, for messages.

  Raises:
    ValueError: an option out of range, or the rollout has no old_logp yet.
  """
  for name, value, known in (('kind', kind, KINDS), ('prob', prob, PROBABILITIES)):
    if value not in known:
      raise ValueError(f'{part}: {name}={value!r} must be one of {", ".join(known)}.')
  if cap <= 0:
    raise ValueError(f'{part}: cap={cap} must be above 0.')
  old = ratios.on_mask(inputs.scored(rollout, 'old_logp', part), rollout.mask)
  reduce = groups.row_mean if prob == 'geo' else groups.row_sum
  log_p = jnp.clip(reduce(old, rollout.mask), -60.0, 0.0)  # e^-60 is still an f32
  size = jnp.maximum(groups.count(rollout.group, types.graded(rollout)), 1).astype(jnp.float32)
  p = jnp.exp(log_p)
  chance = 1.0 if kind == 'raw' else -jnp.expm1(size * jnp.log1p(-p))
  return jax.lax.stop_gradient(jnp.minimum(chance / (size * p), cap))


def reco_weight(
    advantages: Array, rollout: types.Rollout, *, kind: str = 'raw', prob: str = 'geo',
    renorm: bool = False, cap: float = 100.0,
) -> Array:
  """A times the response's weight `response_weight`; divisors stay as they are.

  Args:
    advantages: f32[B] or f32[B, T].
    rollout: reads old_logp (config.score_first), mask, group, graded, where.
    kind, prob, cap: as `response_weight`.
    renorm: divide by the group's mean weight, which keeps GRPO's step size; the weight
      alone shrinks it by about 1 / (G p).

  Returns:
    f32 of the advantages' shape; 0 on ungraded rows.

  Raises:
    ValueError: an option out of range, or the rollout has no old_logp yet.

  Source: ReCo (arXiv 2607.26862); its other half is the weight `reco_scale` of the
  loss. Provenance: abstract, and the formula as an independent reproduction note quotes
  it; reconstructed: that p is the mean per token. presence, renorm and cap are ours.
  """
  weight = response_weight(rollout, kind=kind, prob=prob, cap=cap, part='reco_weight')
  where = types.graded(rollout)
  if renorm:
    mean = groups.mean(weight, rollout.group, where)
    weight = weight / jnp.where(mean > 0, mean, 1.0)
  weight = groups.zero_off(weight, where)
  return advantages * (weight if advantages.ndim == 1 else weight[:, None])


def weighted_grpo(
    rollout: types.Rollout, *, kind: str = 'raw', prob: str = 'geo', cap: float = 100.0,
    eps: float = 1e-6,
) -> Array:
  """GRPO with mean and std weighed by `response_weight`: then sum of w A is 0 in a group.

  A = (r - m) / (sqrt(sum w (r - m)^2 / sum w) + eps), m = sum w r / sum w; it goes with
  the transform `reco_weight` of the same options, without renorm or with.

  Args:
    rollout: reads reward, old_logp (config.score_first), mask, group, graded, where.
    kind, prob, cap: as `response_weight`.
    eps: added to the std.

  Returns:
    f32[B]; 0 on ungraded rows and in an all-equal group. Equal weights: `grpo`.

  Raises:
    ValueError: an option out of range, or the rollout has no old_logp yet.

  Source: an option of ours to ReCo (arXiv 2607.26862).
  """
  reward, where = inputs.graded_reward(rollout)
  weight = response_weight(rollout, kind=kind, prob=prob, cap=cap, part='weighted_grpo')
  share = weight / jnp.maximum(groups.sum(weight, rollout.group, where), 1e-30)
  # Shifted by the minimum, so that an all-equal group is centred to exactly 0.
  low = groups.min(reward, rollout.group, where)
  centred = reward - low - groups.sum(share * (reward - low), rollout.group, where)
  scale = jnp.sqrt(groups.sum(share * jnp.square(centred), rollout.group, where)) + eps
  varied = where & ~groups.all_equal(reward, rollout.group, where)
  return jnp.where(varied, centred / jnp.where(scale > 0, scale, 1.0), 0.0)
