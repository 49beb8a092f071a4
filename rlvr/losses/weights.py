"""What a token's log-probability is pushed with: the factor `weight` of `score_function`.

Each is (out, cell) -> w f32[n, T], at least 0, finite, 0 off the mask and without
gradient: the term's gradient on logp_t is -w_t A_t, of no other token. Where a weight
is 0 the token is rejected: a gate, so that divisors stay. On policy all are 1.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import ratios

Array = jax.Array


def cispo(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.0, high: float = 5.0
) -> Array:
  """w = clip(rho, low, high): the importance weight is bounded, no token is silenced.

  Unbounded (low=0, high=inf) it has the gradient of the unclipped surrogate. A
  token with A > 0 and rho above `high` is pushed on, so bound the updates a batch.

  Args:
    out: reads logp.
    cell: reads old_logp, mask.
    low, high: absolute bounds of the weight, not distances from 1.

  Returns:
    f32[n, T] in [low, high] on the mask.

  Raises:
    ValueError: the bounds do not hold 1.

  Source: MiniMax-M1 (arXiv 2506.13585), CISPO, which does not print its bound; 5 is
  the cap of the later scaling study. Provenance: code read (volcengine/verl
  core_algos.py; huggingface/trl docs); report from knowledge.
  """
  if not 0 <= low <= 1 <= high:
    raise ValueError(f'cispo: low={low} and high={high} must enclose 1, low at least 0.')
  rho = jnp.exp(frozen_log_ratio(out, cell, ratios.old_logp(out, cell)))
  return groups.zero_off(jnp.clip(rho, low, high), cell.mask)


def dis(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.3, high: float = 5.0
) -> Array:
  """w = rho where 1 - low < rho < 1 + high, else 0, rho = exp(logp - rollout_logp).

  Both sides are rejected whatever the sign of A; the ratio is to the sampler itself,
  so that no old_logp is needed. Compared as logs.

  Args:
    out: reads logp.
    cell: reads rollout_logp, mask.
    low: at least 0; from 1 on there is no lower bound.
    high: at least 0; 5 means a ratio of 6.

  Returns:
    f32[n, T]; 0 too where a log-probability is not finite.

  Raises:
    ValueError: low or high is negative.

  Source: SAO (arXiv 2607.07508), direct importance sampling; (0.3, 5) for maths with
  tools, (0.8, 3) for coding. Provenance: two independent re-implementations and a
  review read; no official code found.
  """
  if low < 0 or high < 0:
    raise ValueError(f'dis: low={low} and high={high} must be at least 0.')
  log_rho = frozen_log_ratio(out, cell, cell.rollout_logp)
  inside = jnp.isfinite(out.logp) & jnp.isfinite(cell.rollout_logp)
  inside &= log_rho < jnp.log1p(high)
  if low < 1:
    inside &= log_rho > jnp.log1p(-low)
  return groups.zero_off(jnp.where(inside, jnp.exp(log_rho), 0.0), cell.mask)


def prefix_gate(weight: Array, mask: Array, low: float, high: float) -> Array:
  """bool[n, T]: 1 - low h_t <= w_t <= 1 + high h_t with h_t = sqrt(len / t) on the mask.

  A mean over t tokens spreads as 1 / sqrt(t), so the band is as tight at each position.
  """
  place = jnp.cumsum(mask != 0, axis=1)
  h = jnp.sqrt(place[:, -1:] / jnp.maximum(place, 1))
  return (mask != 0) & (weight >= 1 - low * h) & (weight <= 1 + high * h)


def pnpo(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 7e-4, high: float = 9.5e-4
) -> Array:
  """w_t = exp(mean of the log-ratios up to t), 0 outside the band `prefix_gate`.

  Between the token ratio (t = 1) and GSPO's (t = len), and causal. Rejection does not
  look at the sign of A.

  Args:
    out: reads logp.
    cell: reads old_logp, mask; tokens off the mask do not count as positions.
    low, high: tolerances at a response's last token, at least 0. The defaults are for
      responses of 15000 tokens; for others take what a single token may deviate,
      divided by sqrt(len).

  Returns:
    f32[n, T].

  Raises:
    ValueError: low or high is negative.

  Source: Reusing Rollouts under Policy Lag (arXiv 2608.01418), PNPO; weighed by
  `aggregate.seq_mean_token_mean`. Provenance: a detailed third-party summary read, not
  the paper; the gate, the frozen form and the tolerances are taken from it.
  """
  if low < 0 or high < 0:
    raise ValueError(f'pnpo: low={low} and high={high} must be at least 0.')
  frozen = jax.lax.stop_gradient(out.logp)
  log_w = ratios.prefix_log_weight(frozen, ratios.old_logp(out, cell), cell.mask)
  weight = jnp.exp(log_w)
  inside = prefix_gate(weight, cell.mask, low, high)
  return groups.zero_off(jnp.where(inside, weight, 0.0), cell.mask)


def topr(
    out: types.PolicyOutput, cell: types.Batch, *, high: float = 1.0
) -> Array:
  """w = 1 where A >= 0, min(response ratio, high) where A < 0, on all tokens.

  Good responses are imitated whatever their age, bad ones are pushed down only as far
  as the policy still gives them.

  Args:
    out: reads logp.
    cell: reads old_logp, advantages, mask.
    high: the truncation, at least 1.

  Returns:
    f32[n, T] in [0, high].

  Raises:
    ValueError: high is below 1.

  Source: Tapered Off-Policy REINFORCE (arXiv 2503.14286), whose advantage is the reward
  itself (+1, -1). Provenance: code read in part (modelscope/Trinity-RFT,
  topr_policy_loss); paper from knowledge.
  """
  if high < 1:
    raise ValueError(f'topr: high={high} must be at least 1.')
  total = groups.row_sum(frozen_log_ratio(out, cell, ratios.old_logp(out, cell)), cell.mask)
  tapered = jnp.exp(jnp.clip(total, -ratios.MAX_LOG_RATIO, jnp.log(high)))[:, None]
  negative = groups.zero_off(cell.advantages, cell.mask) < 0
  return groups.zero_off(jnp.where(negative, tapered, 1.0), cell.mask)


def frozen_log_ratio(out: types.PolicyOutput, cell: types.Batch, other: Array) -> Array:
  """log_ratio of out.logp to `other` f32[n, T], without gradient."""
  return jax.lax.stop_gradient(ratios.log_ratio(out.logp, other, cell.mask))
