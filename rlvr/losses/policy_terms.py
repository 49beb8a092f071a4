"""Policy-gradient terms: the clipped surrogate and plain REINFORCE.

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


def _correction(cell):
  if cell.correction is None:
    return jnp.ones_like(cell.mask, jnp.float32)
  return jax.lax.stop_gradient(groups.zero_off(cell.correction, cell.mask))
