"""A KL anchored at the sampler: regression on the log-ratio, KLPO."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import ratios

Array = jax.Array

ROUTES = ('token', 'sequence')
ESTIMATORS = ('mc', 'binary')
_SMALLEST_REST = 1e-6  # of 1 - probability


def klpo(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    beta: float = 0.1,
    route: str = 'token',
    estimator: str = 'mc',
) -> tuple[Array, dict[str, Array]]:
  """A step of the fit of beta log(p / q) to the reward, q the sampler, p the policy.

  max E_p[R] - beta KL(p || q) is solved by p ~ q exp(R / beta). With l = logp -
  rollout_logp on a token and k an estimate of KL(q || p) at its prefix, the frozen
  coefficient and the term are

    token      h_t = R - beta l_t,                    -h_t (logp_t + k_t)
    sequence   D = R - beta sum_t (l_t + k_t),        -D (logp_t + k_t)

    mc      k = mean_j(log q(v_j) - log p(v_j)) over M draws v_j of the sampler at the
            prefix; on the sequence route the coefficient of draw j is the mean of the
            others' D, since the square of a mean of draws is biased
    binary  the KL of the two-way choice between the token and the rest; it needs
            nothing extra, and d(logp + k) = (1 - q) / (1 - p) d logp

  No ratio, no clip, no baseline, no length normalisation: weigh it by
  `aggregate.seq_sum` on `masks.graded_tokens`. Constant rewards pull towards the
  sampler. The values are surrogates; read the metrics.

  Args:
    out: reads logp, and for mc query_logp f32[n, T, M] at the draws.
    cell: reads rollout_logp, reward (raw, of a finished response), mask; for mc
      extras['mc_rollout_logp'] f32[n, T, M] (config.rollout.num_draws = M).
    knobs: not read.
    beta: above 0.
    route: 'token' or 'sequence'.
    estimator: 'mc' (M at least 1, at least 2 for 'sequence') or 'binary'.

  Returns:
    terms f32[n, T]; metrics residual (h_t, or the mean D), regression (h^2 / 2 beta, or
    D^2 / 2 beta without the draws' variance, which may be negative), sampler_gap (l).

  Raises:
    ValueError: an option out of range, or there are no draws, or too few.

  Source: On KL-Regularized Policy Optimization (arXiv 2610.08963). Provenance: official
  code and its algorithm reference read (yifanzhang-pro/KLPO); paper not read. Not here:
  the full and top-k estimators. A probability rounded to 1 cannot be refused inside a
  jitted step: 1 - p is floored at 1e-6 in `binary`.
  """
  del knobs
  if beta <= 0:
    raise ValueError(f'klpo: beta={beta} must be above 0.')
  for name, value, known in (('route', route, ROUTES), ('estimator', estimator, ESTIMATORS)):
    if value not in known:
      raise ValueError(f'klpo: {name}={value!r} must be one of {", ".join(known)}.')
  mask = cell.mask
  logp, rolled = ratios.on_mask(out.logp, mask), ratios.on_mask(cell.rollout_logp, mask)
  gap = ratios.log_ratio(out.logp, cell.rollout_logp, mask)
  # Columns: one a draw, or a single one; `live` carries the gradient of logp + k.
  if estimator == 'mc':
    drawn, rolled_drawn = _draws(out, cell, least=2 if route == 'sequence' else 1)
    k, live = rolled_drawn - drawn, logp[..., None] - drawn
  else:
    rest, rolled_rest = _log_rest(logp), _log_rest(rolled)
    q = jnp.exp(rolled)
    k = (-q * gap + (1 - q) * (rolled_rest - rest))[..., None]
    live = (jax.lax.stop_gradient(jnp.exp(rolled_rest - rest)) * logp)[..., None]
  gap, k = jax.lax.stop_gradient((gap, k))
  reward = groups.zero_off(cell.reward, cell.where)[:, None, None]
  if route == 'token':
    residual = coefficient = reward - beta * gap[..., None]
    square = jnp.square(residual)
  else:
    on_path = jnp.where((mask != 0)[..., None], gap[..., None] + k, 0.0)
    residual = reward - beta * jnp.sum(on_path, axis=1, keepdims=True)
    coefficient, square = _others(residual)
  terms = jnp.mean(-coefficient * live, axis=-1)
  metrics = {'residual': jnp.mean(residual, axis=-1),
             'regression': jnp.mean(square, axis=-1) / (2 * beta), 'sampler_gap': gap}
  on = lambda x: groups.zero_off(jnp.broadcast_to(x, mask.shape), mask)
  return on(terms), jax.lax.stop_gradient({name: on(x) for name, x in metrics.items()})


def _others(residual):
  """The mean of the other columns' D on each column, and D times it; D alone if it is one."""
  num = residual.shape[-1]
  if num == 1:
    return residual, jnp.square(residual)
  others = (jnp.sum(residual, axis=-1, keepdims=True) - residual) / (num - 1)
  return others, residual * others


def _draws(out, cell, least):
  if out.query_logp is None or 'mc_rollout_logp' not in cell.extras:
    raise ValueError("klpo: estimator='mc' reads the sampler's extra draws, which are not there; "
                     "set config.rollout.num_draws, or take estimator='binary'.")
  if out.query_logp.shape[-1] < least:
    raise ValueError(f'klpo: {out.query_logp.shape[-1]} draws a token; it needs {least} or more '
                     '(config.rollout.num_draws).')
  mask = jnp.broadcast_to(cell.mask[..., None], out.query_logp.shape)
  rolled = jax.lax.stop_gradient(ratios.on_mask(cell.extras['mc_rollout_logp'], mask))
  return ratios.on_mask(out.query_logp, mask), rolled


def _log_rest(logp):
  return jnp.log(jnp.maximum(-jnp.expm1(jax.lax.stop_gradient(logp)), _SMALLEST_REST))
