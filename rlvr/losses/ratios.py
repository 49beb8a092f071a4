"""How far the policy has moved since it wrote a token: the factor `ratio` of a surrogate.

The table's entries are (out, cell) -> f32[n, T], 1 off the mask and exactly 1 on
policy, carrying the gradient of out.logp; the array functions above them are
what notebooks use. Log-probabilities are selected by the mask and floored
before they are subtracted, and the difference is clamped before it is
exponentiated: NaN in padding, -inf and overflow reach neither value nor gradient.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec
from rlvr import types

Array = jax.Array

MAX_LOG_RATIO = 20.0  # nats; beyond it only finiteness is promised
MAX_SEQUENCE_LOG_RATIO = 10.0  # nats, of a mean over tokens
LOGP_FLOOR = -1e4  # nats; a log-probability of -inf counts as this


def on_mask(logp: Array, mask: Array) -> Array:
  """logp f32[n, T], floored, and 0 off the mask in value and gradient."""
  return jnp.maximum(groups.zero_off(logp, mask), LOGP_FLOOR)


def log_ratio(logp: Array, old_logp: Array, mask: Array) -> Array:
  """clip(logp - old_logp, -20, 20) f32[n, T]; 0 off the mask."""
  chex.assert_equal_shape([logp, old_logp, mask])
  difference = on_mask(logp, mask) - on_mask(old_logp, mask)
  return jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def sequence_log_ratio(logp: Array, old_logp: Array, mask: Array) -> Array:
  """f32[n]: sum_t mask * (logp - old_logp) / len; 0 for an empty response."""
  return groups.row_mean(log_ratio(logp, old_logp, mask), mask)


def prefix_log_weight(logp: Array, old_logp: Array, mask: Array) -> Array:
  """f32[n, T]: the mean of logp - old_logp over the mask's tokens up to t; 0 off the mask.

  Sums in f32. At the first token it is the token's log-ratio, at the last the
  response's `sequence_log_ratio`.
  """
  total = jnp.cumsum(log_ratio(logp, old_logp, mask), axis=1)
  return groups.zero_off(total / jnp.maximum(jnp.cumsum(mask != 0, axis=1), 1), mask)


def live_one(logp: Array, mask: Array) -> Array:
  """exp(logp - frozen(logp)) f32[n, T]: of value 1, with the gradient of logp on the mask."""
  own = on_mask(logp, mask)
  return jnp.exp(own - jax.lax.stop_gradient(own))


def old_logp(out: types.PolicyOutput, cell: types.Batch) -> Array:
  """f32[n, T]: the old policy's; where it was not scored, the frozen out.logp.

  The second is right when a batch is used once and the sampler's weights are
  the trainer's: the ratio's value is exactly 1 and its gradient that of logp.
  """
  frozen = out.logp if cell.old_logp is None else cell.old_logp
  return jax.lax.stop_gradient(frozen)


def token_ratio(out: types.PolicyOutput, cell: types.Batch) -> Array:
  """rho_t = exp(logp_t - old_logp_t), each token on its own.

  Args:
    out: reads logp.
    cell: reads old_logp, mask.

  Returns:
    f32[n, T], positive; 1 off the mask; clamped to e^-20 ... e^20.

  Source: DeepSeekMath (arXiv 2402.03300); code read (verl core_algos.py).
  """
  return jnp.exp(log_ratio(out.logp, old_logp(out, cell), cell.mask))


def sequence_ratio(out: types.PolicyOutput, cell: types.Batch) -> Array:
  """s = exp(mean_t (logp - old_logp)), the geometric mean, on every token.

  The gradient flows through the whole response: weighted by
  `aggregate.seq_mean_token_mean`, each token receives -A s / len per row.

  Args:
    out: reads logp.
    cell: reads old_logp, mask.

  Returns:
    f32[n, T], at most e^10; 1 off the mask.

  Source: GSPO (arXiv 2507.18071). Provenance: code read (verl core_algos.py);
  paper from knowledge.
  """
  log_s = sequence_log_ratio(out.logp, old_logp(out, cell), cell.mask)
  return _on_tokens(jnp.exp(jnp.minimum(log_s, MAX_SEQUENCE_LOG_RATIO)), cell.mask)


def sequence_token_ratio(out: types.PolicyOutput, cell: types.Batch) -> Array:
  """s_t = frozen(s) * exp(logp_t - frozen(logp_t)): GSPO-token, for advantages per token.

  Args, Returns: as `sequence_ratio`, with the gradient of a token's own logp only.

  Source: GSPO (arXiv 2507.18071), the token variant.
  """
  value = jax.lax.stop_gradient(sequence_ratio(out, cell))
  return value * live_one(out.logp, cell.mask)


def gmpo_ratio(
    out: types.PolicyOutput, cell: types.Batch, *, low: float = 0.4, high: float = 0.4
) -> Array:
  """s = exp(mean_t d_t): clipped token by token, then averaged, so that `no_clip` goes with it.

  d = min(logp - old_logp, high) where A >= 0, max(logp - old_logp, -low) where A < 0:
  clipped only where the advantage pushes, as in PPO. Weighed by
  `aggregate.seq_mean_token_mean`, a token receives -A s / len per row, 0 if clipped.

  Args:
    out: reads logp.
    cell: reads old_logp, mask, advantages, of one sign in a response (undefined in
      the paper where tokens differ: here each is clipped on its own side).
    low, high: nats, at least 0; 0.4 is a band [0.670, 1.492] of the ratio.

  Returns:
    f32[n, T]; 1 off the mask.

  Raises:
    ValueError: low or high is negative.

  Source: GMPO (arXiv 2507.20673). Provenance: code read (verl core_algos.py,
  geo_mean); paper from knowledge.
  """
  if low < 0 or high < 0:
    raise ValueError(f'gmpo_ratio: low={low} and high={high} must be at least 0 (nats).')
  delta = log_ratio(out.logp, old_logp(out, cell), cell.mask)
  up = groups.zero_off(cell.advantages, cell.mask) >= 0
  cut = jnp.where(up, delta > high, delta < -low)
  # Selected rather than minimised: a tie of the two would halve the gradient.
  delta = jnp.where(cut, jnp.where(up, high, -low), delta)
  log_s = jnp.minimum(groups.row_mean(delta, cell.mask), MAX_SEQUENCE_LOG_RATIO)
  return _on_tokens(jnp.exp(log_s), cell.mask)


def response_ratio(out: types.PolicyOutput, cell: types.Batch) -> Array:
  """exp(sum_t (logp - old_logp)): the response as one action, on every token.

  Not length-normalised, so the clip must be wide. Weigh it so that the weights
  of a response's tokens sum to its share (`aggregate.seq_mean_token_mean`).

  Args:
    out: reads logp.
    cell: reads old_logp, mask.

  Returns:
    f32[n, T], the sum clamped to e^-20 ... e^20; 1 off the mask.

  Source: Back to Basics (arXiv 2402.14740), RLOO's option for several updates.
  """
  total = groups.row_sum(log_ratio(out.logp, old_logp(out, cell), cell.mask), cell.mask)
  return _on_tokens(jnp.exp(jnp.clip(total, -MAX_LOG_RATIO, MAX_LOG_RATIO)), cell.mask)


def proxy_ratio(
    out: types.PolicyOutput, cell: types.Batch, *, mix: float = 0.5
) -> Array:
  """rho_t = exp(logp - prox), prox = mix * rollout_logp + (1 - mix) * frozen logp.

  A proximal policy on the line from the current one to the sampler, for want of
  old weights: rho is (pi / mu)^mix, so a clip at 1 + eps is one of pi / mu at
  (1 + eps)^(1 / mix). It restores nothing that old weights would tell.

  Args:
    out: reads logp.
    cell: reads rollout_logp, mask; old_logp is not read.
    mix: a, in (0, 1]; 1 is the ratio to the sampler.

  Returns:
    f32[n, T], positive; 1 off the mask; its gradient is rho, as of any token ratio.

  Raises:
    ValueError: mix is not in (0, 1].

  Source: exact old logits and revised PPO-EWMA (arXiv 2605.12070), the
  approximation that it criticises. Provenance: a third-party article read.
  """
  if not 0 < mix <= 1:
    raise ValueError(f'proxy_ratio: mix={mix} must be in (0, 1].')
  own, rolled = on_mask(out.logp, cell.mask), on_mask(cell.rollout_logp, cell.mask)
  prox = jax.lax.stop_gradient(own + mix * (rolled - own))
  return jnp.exp(log_ratio(out.logp, prox, cell.mask))


def _on_tokens(row, mask):
  return jnp.where(mask != 0, row[:, None], 1.0)


RATIOS = spec.make_table(
    token_ratio, sequence_ratio, sequence_token_ratio, gmpo_ratio, response_ratio,
    proxy_ratio)
