"""AIS: the strength of the sampler-to-trainer importance weight, chosen per batch.

Three diagnostics of the whole batch decide how far the weights are believed:
alpha in [0, 1] mixes the uncorrected gradient with the importance-weighted one.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec
from rlvr.corrections import levels

Array = jax.Array


def adaptive_mixing(
    ess: Array, kl: Array, cv: Array, *, scale: float = 0.01, cv_ref: float = 1.0,
    ess_floor: float = 0.5
) -> Array:
  """alpha = max(ess, floor) * (1 - exp(-kl / scale)) / (1 + (cv / cv_ref)^2).

  No divergence: nothing to correct. As it grows the correction opens; unreliable
  or exploding weights damp it. The floor keeps long responses, whose ess falls to
  1 / rows, from switching the correction off where mismatch is worst.

  Args:
    ess, kl, cv: f32[], see `diagnostics`.
    scale: kappa, nats a token, above 0.
    cv_ref: above 0.
    ess_floor: in [0, 1].

  Returns:
    f32[] in [0, 1], 0 iff kl is 0; rising in ess and kl, falling in cv.

  Raises:
    ValueError: an option is out of range.
  """
  if scale <= 0 or cv_ref <= 0 or not 0 <= ess_floor <= 1:
    raise ValueError(
        f'adaptive_mixing: scale={scale} and cv_ref={cv_ref} must be above 0, '
        f'ess_floor={ess_floor} in [0, 1].')
  return (jnp.maximum(ess, ess_floor) * -jnp.expm1(-kl / scale)
          / (1.0 + jnp.square(cv / cv_ref)))


def fixed_mixing(ess: Array, kl: Array, cv: Array, *, alpha: float = 1.0) -> Array:
  """alpha whatever the batch: 1 is truncated importance sampling, 0 no correction.

  Raises:
    ValueError: alpha is not in [0, 1].
  """
  del kl, cv
  if not 0 <= alpha <= 1:
    raise ValueError(f'fixed_mixing: alpha={alpha} must be in [0, 1].')
  return jnp.full_like(ess, alpha)


def diagnostics(
    old_logp: Array, rollout_logp: Array, mask: Array
) -> tuple[Array, Array, Array]:
  """How far to believe the importance weights of a batch, f32[] each.

  Args:
    old_logp, rollout_logp, mask: f32[n, T], all rows of the batch.

  Returns:
    ess: (sum W)^2 / (rows * sum W^2) in [1 / rows, 1], W the product of a
      response's ratios, over non-empty responses.
    kl: the mean over tokens of e^d - d - 1, at least 0.
    cv: std / mean of e^d over tokens, not truncated.
    An empty mask gives 1, 0, 0. Response level for ess, where drift accumulates,
    token level for cv, where the weight acts: on one level the two are one
    number, ess = 1 / (1 + cv^2).
  """
  difference = _difference(old_logp, rollout_logp, mask)
  kept = mask != 0
  ratio = jnp.exp(difference)
  return (weight_ess(groups.row_sum(difference, mask), jnp.any(kept, axis=1)),
          _mean(jnp.expm1(difference) - difference, kept), weight_cv(ratio, kept))


def weight_ess(log_weight: Array, where: Array) -> Array:
  """f32[]: effective share of samples, (sum W)^2 / (n sum W^2); 1 where there are none."""
  largest = jnp.max(jnp.where(where, log_weight, -jnp.inf), initial=-jnp.inf)
  shifted = jnp.where(where, log_weight - jnp.where(jnp.any(where), largest, 0.0), -jnp.inf)
  weight = jnp.exp(shifted)
  squares = jnp.sum(where) * jnp.sum(jnp.square(weight))
  return jnp.where(
      squares > 0, jnp.square(jnp.sum(weight)) / jnp.where(squares > 0, squares, 1.0), 1.0)


def weight_cv(weight: Array, where: Array) -> Array:
  """f32[]: std / mean (ddof 0) of positive weights; 0 where there are none."""
  mean = _mean(weight, where)
  spread = jnp.sqrt(_mean(jnp.square(weight - mean), where))
  return jnp.where(mean > 0, spread / jnp.where(mean > 0, mean, 1.0), 0.0)


def ais(
    old_logp: Array, rollout_logp: Array, mask: Array, *, cap: float = 2.0, mixing=adaptive_mixing
) -> Array:
  """(1 - alpha) + alpha * min(r, cap), r = exp(old_logp - rollout_logp), one alpha a batch.

  The gradient is (1 - alpha) of the uncorrected and alpha of the weighted one.

  Args:
    old_logp: f32[n, T], the sampling weights in the trainer's numerics.
    rollout_logp: f32[n, T], what the sampler recorded.
    mask: f32[n, T]; all rows of the batch must be here, since alpha is the
      batch's. A row with a difference that is not finite counts as agreeing.
    cap: C, at least 1.
    mixing: (ess, kl, cv) -> alpha, a part of MIXINGS.

  Returns:
    f32[n, T] between min(1, r) and max(1, r); 1 off the mask, and everywhere,
    to the bit, where the two agree.

  Raises:
    ValueError: cap is below 1, or an option of the mixing is out of range.

  Source: AIS (arXiv 2605.13907). Provenance: abstract only, reconstructed: the
  levels of the diagnostics, the rule that combines them and all constants. The
  batch is the rows that are trained: rows that no term acts on are not scored,
  and each minibatch has its own alpha.
  """
  if cap < 1:
    raise ValueError(f'ais: cap={cap} must be at least 1.')
  alpha = mixing(*diagnostics(old_logp, rollout_logp, mask))
  weight = jnp.minimum(jnp.exp(_difference(old_logp, rollout_logp, mask)), cap)
  return levels.on_mask(1.0 + alpha * (weight - 1.0), mask)


def readings(
    old_logp: Array, rollout_logp: Array, mask: Array, *, cap: float = 2.0, mixing=adaptive_mixing
) -> dict[str, Array]:
  """f32[] by name: what `ais` decided and why; rows that count as missing, too."""
  del cap
  ess, kl, cv = diagnostics(old_logp, rollout_logp, mask)
  missing = jnp.sum(~_known(old_logp, rollout_logp, mask), dtype=jnp.float32)
  return {'ais_ess': ess, 'ais_kl': kl, 'ais_cv': cv, 'ais_alpha': mixing(ess, kl, cv),
          'ais_missing': missing}


def _known(old_logp, rollout_logp, mask):
  """bool[n]: rows whose differences are all finite."""
  finite = jnp.isfinite(old_logp) & jnp.isfinite(rollout_logp)
  return jnp.all(finite | (mask == 0), axis=1)


def _difference(old_logp, rollout_logp, mask):
  known = _known(old_logp, rollout_logp, mask)[:, None]
  return jax.lax.stop_gradient(
      jnp.where(known, levels.token(old_logp, rollout_logp, mask), 0.0))


def _mean(x, where):
  return jnp.sum(jnp.where(where, x, 0.0)) / jnp.maximum(jnp.sum(where), 1)


MIXINGS = spec.make_table(adaptive_mixing, fixed_mixing)
