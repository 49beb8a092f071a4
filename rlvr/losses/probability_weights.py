"""Weights of `score_function` that read the token's own probability: DPPO, ReCo.

They are as those of the module weights: a ratio says nothing of how much of the
distribution moves, a probability does.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import clips
from rlvr.losses import ratios
from rlvr.losses import weights

Array = jax.Array


def dppo_tv(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.2, high: float = 0.2,
    cap: float = 20.0,
) -> Array:
  """w = min(rho, cap), 0 where the token's probability has moved too far already.

  Rejected: A > 0 and p - p_old > high, or A < 0 and p_old - p > low: the total
  variation of the two-way choice between this token and the others. A rare token may
  change its ratio much, a likely one little.

  Args:
    out: reads logp.
    cell: reads old_logp, advantages, mask.
    low, high: of a probability, at least 0.
    cap: of the ratio, at least 1.

  Returns:
    f32[n, T].

  Raises:
    ValueError: an option out of range.

  Source: arXiv 2602.04879, DPPO-Binary-TV. Provenance: code read (forks of
  volcengine/verl core_algos.py, compute_policy_loss_dppo_tv); paper not read.
  """
  _check_dppo('dppo_tv', low, high, cap)
  p, old_p, log_rho, advantages = _probabilities(out, cell)
  gone = jnp.where(advantages > 0, p - old_p > high, p - old_p < -low)
  return _truncated(log_rho, gone, cap, cell.mask)


def dppo_kl(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.2, high: float = 0.2,
    cap: float = 20.0,
) -> Array:
  """As `dppo_tv`, with the divergence KL(p_old || p) of the two-way choice, in nats.

  Rejected: A > 0, p > p_old and KL > high, or A < 0, p < p_old and KL > low.

  Args, Returns, Raises: as `dppo_tv`; low and high in nats.

  Source: arXiv 2602.04879, DPPO-Binary-KL. Provenance: as `dppo_tv`.
  """
  _check_dppo('dppo_kl', low, high, cap)
  p, old_p, log_rho, advantages = _probabilities(out, cell)
  divergence = -old_p * log_rho + (1 - old_p) * (_log_rest(old_p) - _log_rest(p))
  up, down = (p > old_p) & (divergence > high), (p < old_p) & (divergence > low)
  return _truncated(log_rho, jnp.where(advantages > 0, up, down), cap, cell.mask)


def reco_scale(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.2, high: float = 0.2,
    floor: float = 1e-4, cap: float = 10.0,
) -> Array:
  """w = p (1 - p) / (p_old (1 - p_old)), at most cap, 0 where PPO's clip cuts.

  The ratio of Bernoulli variances: what grows likely is pushed less, while rho grows.
  Differentiated it would fight the advantage for p > 1/2; so it is frozen.

  Args:
    out: reads logp.
    cell: reads old_logp, advantages, mask.
    low, high: PPO's clip range, at least 0.
    floor: of 1 - p, in (0, 1).
    cap: of the weight, at least 1.

  Returns:
    f32[n, T] in [0, cap].

  Raises:
    ValueError: an option out of range.

  Source: ReCo (arXiv 2607.26862). Provenance: the abstract, and the formula as an
  independent reproduction note quotes it; reconstructed: floor, cap, the gate.
  """
  if low < 0 or high < 0 or not 0 < floor < 1 or cap < 1:
    raise ValueError(f'reco_scale: low={low} and high={high} must be at least 0, '
                     f'floor={floor} in (0, 1) and cap={cap} at least 1.')
  p, old_p, log_rho, advantages = _probabilities(out, cell)
  rho = jnp.exp(log_rho)
  scale = rho * jnp.maximum(1 - p, floor) / jnp.maximum(1 - old_p, floor)
  cut = clips.beyond(rho, advantages, 1 - low, 1 + high)
  return groups.zero_off(jnp.where(cut, 0.0, jnp.minimum(scale, cap)), cell.mask)


def _probabilities(out, cell):
  """p, p_old, log rho, A: f32[n, T], frozen."""
  old = ratios.old_logp(out, cell)
  p, old_p = (jnp.exp(ratios.on_mask(x, cell.mask)) for x in (out.logp, old))
  advantages = groups.zero_off(cell.advantages, cell.mask)
  return jax.lax.stop_gradient((p, old_p, weights.frozen_log_ratio(out, cell, old), advantages))


def _log_rest(p):
  return jnp.log(jnp.maximum(1 - p, 1e-8))


def _truncated(log_rho, rejected, cap, mask):
  weight = jnp.minimum(jnp.exp(log_rho), cap)
  return groups.zero_off(jnp.where(rejected, 0.0, weight), mask)


def _check_dppo(part, low, high, cap):
  if low < 0 or high < 0 or cap < 1:
    raise ValueError(
        f'{part}: low={low} and high={high} must be at least 0 and cap={cap} at least 1.')
