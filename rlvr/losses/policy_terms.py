"""Policy-gradient terms: the clipped surrogate, weighted score functions, plain REINFORCE.

A term is (out, cell, knobs) -> (terms f32[n, T], metrics). It never reduces and
is minimised. Off cell.mask the term, its metrics and its gradient are 0,
whatever the arrays hold there. Metrics carry no gradient.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import clips
from rlvr.losses import kl
from rlvr.losses import ratios
from rlvr.losses import weights

Array = jax.Array


def surrogate(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    ratio=ratios.token_ratio,
    clip=clips.ppo_clip,
) -> tuple[Array, dict[str, Array]]:
  """-clip(ratio, A) per token, times the sampler correction.

  l = -min(rho A, clip(rho, 1 - low, 1 + high) A) with the default factors; GRPO,
  Dr. GRPO, DAPO and GSPO are settings of it.

  Args:
    out: reads logp f32[n, T].
    cell: reads advantages, mask, old_logp (None: the frozen out.logp, for one
      pass on policy) and correction (None: 1).
    knobs: not read.
    ratio: a part of RATIOS.
    clip: a part of CLIPS.

  Returns:
    terms f32[n, T]; metrics ratio, clip_share (0 or 1), active (1 where neither
    the clip nor a correction of 0 cuts the gradient), kl_old (k3 of
    KL(old || new) on the old policy's samples, at least 0). Advantage 0 gives
    term 0 and gradient 0.

  Source: DeepSeekMath (arXiv 2402.03300). Provenance: code read
  (volcengine/verl:verl/trainer/ppo/core_algos.py); paper from knowledge.
  """
  del knobs
  advantages = groups.zero_off(cell.advantages, cell.mask)
  rho = ratio(out, cell)
  objective, clipped = clip(rho, jax.lax.stop_gradient(advantages))
  correction = _correction(cell)
  terms = groups.zero_off(-objective * correction, cell.mask)
  old = ratios.on_mask(ratios.old_logp(out, cell), cell.mask)
  metrics = {
      'ratio': groups.zero_off(rho, cell.mask),
      'clip_share': groups.zero_off(clipped, cell.mask),
      'active': groups.zero_off(jnp.where(correction != 0, 1.0 - clipped, 0.0), cell.mask),
      'kl_old': kl.k3(old, ratios.on_mask(out.logp, cell.mask)),
  }
  return terms, jax.lax.stop_gradient(metrics)


def policy_gradient(
    out: types.PolicyOutput, cell: types.Batch, knobs: dict[str, Array]
) -> tuple[Array, dict[str, Array]]:
  """-A logp per token, times the sampler correction: REINFORCE, no ratio, no clip.

  The value of the term means nothing; its gradient on logp is -A.

  Args:
    out: reads logp f32[n, T].
    cell: reads advantages, mask, correction (None: 1).
    knobs: not read.

  Returns:
    terms f32[n, T]; metrics logp. Advantage 0 gives term 0 and gradient 0.

  Source: Back to Basics (arXiv 2402.14740), weighted by `aggregate.seq_sum`.
  """
  del knobs
  advantages = jax.lax.stop_gradient(groups.zero_off(cell.advantages, cell.mask))
  logp = ratios.on_mask(out.logp, cell.mask)
  terms = groups.zero_off(-advantages * logp * _correction(cell), cell.mask)
  return terms, {'logp': jax.lax.stop_gradient(logp)}


def score_function(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    weight=weights.cispo,
) -> tuple[Array, dict[str, Array]]:
  """-frozen(w A) exp(logp - frozen(logp)) per token, times the sampler correction.

  The value is -w A, the gradient on logp_t is -w_t A_t: nothing flows through the
  weight. CISPO, SAO, PNPO, ReCo and others are weights of it.

  Args:
    out: reads logp f32[n, T].
    cell: reads advantages, mask, correction (None: 1), and what the weight reads.
    knobs: not read.
    weight: a part of WEIGHTS.

  Returns:
    terms f32[n, T]; metrics weight, active (1 where neither weight nor correction is
    0), kl_old as `surrogate`. Advantage 0 gives term 0 and gradient 0.
  """
  del knobs
  advantages = groups.zero_off(cell.advantages, cell.mask)
  w = jax.lax.stop_gradient(weight(out, cell))
  pushed = jax.lax.stop_gradient(w * advantages) * _correction(cell)
  terms = groups.zero_off(-pushed * ratios.live_one(out.logp, cell.mask), cell.mask)
  old = ratios.on_mask(ratios.old_logp(out, cell), cell.mask)
  metrics = {
      'weight': w,
      'active': groups.zero_off((w * _correction(cell) != 0).astype(jnp.float32), cell.mask),
      'kl_old': kl.k3(old, ratios.on_mask(out.logp, cell.mask)),
  }
  return terms, jax.lax.stop_gradient(metrics)


def mix_ppg(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    low: float = 0.2,
    high: float = 0.2,
) -> tuple[Array, dict[str, Array]]:
  """-min(r A, clip(r, c - low, c + high) A), r = exp(logp - gen_logp), c = r of old_logp.

  The band is centred where the policy stood at the start of the step, so that rows
  are not clipped for being old; in terms of pi / pi_old it is 1 +- low / c.

  Args:
    out: reads logp f32[n, T].
    cell: reads old_logp (the start of the step), gen_logp (who wrote the row, in the
      trainer's numerics; None: old_logp, then it is PPO's clip), advantages, mask,
      correction (None: 1).
    knobs: not read.
    low, high: at least 0.

  Returns:
    terms f32[n, T]; metrics ratio (r), centre (c), clip_share. Advantage 0 gives
    term 0 and gradient 0.

  Raises:
    ValueError: low or high is negative.

  Source: Squeeze the Soaked Sponge (arXiv 2507.06892), ReMix's Mix-PPG. Provenance: a
  detailed third-party note read.
  """
  del knobs
  if low < 0 or high < 0:
    raise ValueError(f'mix_ppg: low={low} and high={high} must be at least 0.')
  advantages = jax.lax.stop_gradient(groups.zero_off(cell.advantages, cell.mask))
  old = ratios.old_logp(out, cell)
  gen = old if cell.gen_logp is None else jax.lax.stop_gradient(cell.gen_logp)
  r = jnp.exp(ratios.log_ratio(out.logp, gen, cell.mask))
  centre = jnp.exp(ratios.log_ratio(old, gen, cell.mask))
  cut = clips.beyond(r, advantages, centre - low, centre + high)
  objective, clipped = clips.held(r, advantages, centre - low, centre + high, cut)
  metrics = {'ratio': r, 'centre': centre, 'clip_share': clipped}
  metrics = {name: groups.zero_off(value, cell.mask) for name, value in metrics.items()}
  return (groups.zero_off(-objective * _correction(cell), cell.mask),
          jax.lax.stop_gradient(metrics))


def _correction(cell):
  if cell.correction is None:
    return jnp.ones_like(cell.mask, jnp.float32)
  return jax.lax.stop_gradient(groups.zero_off(cell.correction, cell.mask))
