"""ReMix's anchor: between the base and the last policy, from the one to the other."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import kl
from rlvr.losses import ratios

Array = jax.Array


def base_share(
    step: Array, *, hold: int = 50, every: int = 10, drop: float = 0.1, least: float = 0.5
) -> Array:
  """lambda_t = max(1 - drop * ceil(max(t - hold, 0) / every), least), f32 of step's shape."""
  num_drops = -(-jnp.maximum(step - hold, 0) // every)
  return jnp.maximum(1.0 - drop * num_drops.astype(jnp.float32), least)


def kl_convex(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    estimator=kl.k3,
    hold: int = 50,
    every: int = 10,
    drop: float = 0.1,
    least: float = 0.5,
) -> tuple[Array, dict[str, Array]]:
  """lambda_t KL(policy || base) + (1 - lambda_t) KL(policy || last policy) per token.

  Args:
    out: reads logp f32[n, T].
    cell: reads ref_logp (the base, which a memory may move), extras['prev_logp']
      f32[n, T] (the policy that the step before started from), extras['step']
      i32[n], mask.
    knobs: not read; the coefficient is the term's own.
    estimator: a part of KL_ESTIMATORS.
    hold: steps with lambda 1.
    every: steps between drops of lambda after that.
    drop: how much lambda drops each time.
    least: lambda's end, 0 to 1.

  Returns:
    terms f32[n, T], at least 0 with the default estimator, 0 where the policy is
    the base and the last one, linear in lambda; 0 off the mask. Metrics ref_kl and
    prev_kl (k3 whatever the estimator), base_share (lambda).

  Raises:
    ValueError: an option out of range, or a log-probability is missing.

  Source: Squeeze the Soaked Sponge (arXiv 2507.06892), ReMix. Provenance: a
  detailed third-party note read; the estimator is reconstructed. As a loss k3 has
  the gradient of the forward KL (see the module kl).
  """
  del knobs
  if hold < 0 or every < 1:
    raise ValueError(f'kl_convex: hold={hold} must be at least 0 and every={every} at least 1.')
  if drop < 0 or not 0 <= least <= 1:
    raise ValueError(f'kl_convex: drop={drop} must be at least 0 and least={least} in 0 ... 1.')
  if cell.ref_logp is None or 'prev_logp' not in cell.extras:
    raise ValueError(
        "kl_convex reads cell.ref_logp and cell.extras['prev_logp']; the run needs a ref anchor "
        'and the memory last_policy.')
  logp = ratios.on_mask(out.logp, cell.mask)
  anchor = lambda x: jax.lax.stop_gradient(ratios.on_mask(x, cell.mask))
  base, last = anchor(cell.ref_logp), anchor(cell.extras['prev_logp'])
  share = base_share(cell.extras['step'], hold=hold, every=every, drop=drop, least=least)
  share = jnp.broadcast_to(share[:, None], cell.mask.shape)
  terms = share * estimator(logp, base) + (1.0 - share) * estimator(logp, last)
  metrics = {'ref_kl': kl.k3(logp, base), 'prev_kl': kl.k3(logp, last),
             'base_share': groups.zero_off(share, cell.mask)}
  return groups.zero_off(terms, cell.mask), jax.lax.stop_gradient(metrics)
