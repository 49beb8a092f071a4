"""The three-policy view: repair the gap sampler to trainer, apart from staleness.

With mu the sampler (rollout_logp), prox the proximal policy (old_logp) and theta
the current one, r_d = prox / mu is repaired here, by a frozen gate and weight;
r_s = theta / prox is the ratio that a surrogate clips. r_s r_d = theta / mu
whatever prox is.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr.corrections import levels

Array = jax.Array

WEIGHT_LEVELS = ('token', 'response', 'none')
RESPONSE_GATES = ('product', 'mean', 'none')


def decoupled(
    old_logp: Array, rollout_logp: Array, mask: Array, *, band: float = 2.0, w_cap: float = 2.0
) -> Array:
  """D * min(r_d, w_cap), with the gate D = 1 where 1 / band <= r_d <= band, else 0.

  Args:
    old_logp: f32[n, T], log-probabilities of the proximal policy.
    rollout_logp: f32[n, T], what the sampler recorded.
    mask: f32[n, T].
    band: c, at least 1; the gate is symmetric and blind to the advantage.
    w_cap: at least 1; acts only where it is below `band`.

  Returns:
    f32[n, T] in {0} and [1 / band, min(band, w_cap)]; 1 off the mask.

  Raises:
    ValueError: band or w_cap is below 1.

  Source: exact old logits and revised PPO-EWMA (arXiv 2605.12070). Provenance: a
  third-party article read, official code read where it exists; reconstructed:
  how mask and weight of r_d combine in one loss.
  """
  if band < 1 or w_cap < 1:
    raise ValueError(f'decoupled: band={band} and w_cap={w_cap} must be at least 1.')
  ratio = jnp.exp(levels.token(old_logp, rollout_logp, mask))
  # A ulp of slack: e^log(2) may come out above 2, and the edge belongs to the band.
  inside = (ratio >= (1 - 1e-6) / band) & (ratio <= (1 + 1e-6) * band)
  return levels.on_mask(jnp.where(inside, jnp.minimum(ratio, w_cap), 0.0), mask)


def discrepancy_filter(
    old_logp: Array,
    rollout_logp: Array,
    mask: Array,
    *,
    level: str = 'token',
    clamp: float = 2.0,
    token_low: float = 0.0,
    token_high: float = 2.0,
    floor: float = 1e-4,
    response_gate: str = 'product',
    response_low: float = 0.1,
    response_high: float = 10.0,
) -> Array:
  """The options of the official code in one part: a weight times three gates.

  weight * [token_low <= r_d <= token_high] * [no token of the response has
  r_d < floor] * [response_low <= R <= response_high], R the product or the
  geometric mean of the response's r_d.

  Args:
    old_logp, rollout_logp, mask: f32[n, T], as in `decoupled`.
    level: of the weight: token, response (the product) or none (1).
    clamp: ceiling of the weight, at least 1.
    token_low, token_high: the token gate, enclosing 1.
    floor: below it a token drops its whole response; 0 is off.
    response_gate: product, mean or none.
    response_low, response_high: the response gate, enclosing 1; for the mean the
      official code has 0.999 and 1.001.

  Returns:
    f32[n, T], at least 0, at most clamp; 1 off the mask.

  Raises:
    ValueError: an unknown level or gate, or a number out of range.

  Source: as `decoupled`; code read (millioniron/ROLL:
  roll/utils/infer_correction.py).
  """
  for option, value, known in (('level', level, WEIGHT_LEVELS),
                               ('response_gate', response_gate, RESPONSE_GATES)):
    if value not in known:
      raise ValueError(
          f'discrepancy_filter: {option}={value!r}; expected one of {", ".join(known)}.')
  if clamp < 1 or not 0 <= floor < 1:
    raise ValueError(
        f'discrepancy_filter: clamp={clamp} must be at least 1 and floor={floor} in [0, 1).')
  levels.check_band('discrepancy_filter (token)', token_low, token_high)
  levels.check_band('discrepancy_filter (response)', response_low, response_high)
  args = (old_logp, rollout_logp, mask)
  token, product = jnp.exp(levels.token(*args)), jnp.exp(levels.sequence(*args))
  one = jnp.ones_like(token)
  weight = jnp.minimum({'token': token, 'response': product, 'none': one}[level], clamp)
  kept = (token >= token_low) & (token <= token_high)
  lost = groups.row_sum(jnp.where(token < floor, 1.0, 0.0), mask) > 0
  response = {'product': product, 'mean': jnp.exp(levels.geometric(*args)),
              'none': one}[response_gate]
  kept &= ~lost[:, None] & (response >= response_low) & (response <= response_high)
  return levels.on_mask(jnp.where(kept, weight, 0.0), mask)
