"""Standard metrics of the gap between sampler and trainer, per token.

They are metrics like those of a loss term: f32[n, T], 0 off the mask, averaged
by the caller as sum(w * m) / sum(w), and carry no gradient.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr.losses import kl
from rlvr.losses import ratios

Array = jax.Array


def mismatch(logp: Array, rollout_logp: Array, mask: Array) -> dict[str, Array]:
  """How far the trainer's log-probabilities are from those the sampler recorded.

  Args:
    logp: f32[n, T], the trainer's: old_logp, or the frozen out.logp on policy.
    rollout_logp: f32[n, T], the sampler's.
    mask: f32[n, T].

  Returns:
    mismatch_kl: k3 of KL(sampler || trainer) on the sampler's samples, at least
      0; e^d - d - 1 with d = logp - rollout_logp clamped to +-20.
    mismatch_abs: |d|.
    mismatch_ratio: e^d, its mean is 1 if the sampler drew what it recorded.
  """
  difference = ratios.log_ratio(logp, rollout_logp, mask)
  metrics = {
      'mismatch_kl': kl.k3(ratios.on_mask(rollout_logp, mask), ratios.on_mask(logp, mask)),
      'mismatch_abs': jnp.abs(difference),
      'mismatch_ratio': groups.zero_off(jnp.exp(difference), mask),
  }
  return jax.lax.stop_gradient(metrics)


def staleness(version: Array, step: Array, mask: Array) -> dict[str, Array]:
  """How many policy steps ago each token was written.

  Args:
    version: i32[n, T], the policy step that wrote each token.
    step: i32[], the step that trains on it.
    mask: f32[n, T].

  Returns:
    staleness: step - version; stale: 1 where that is above 0.
  """
  chex.assert_equal_shape([version, mask])
  age = groups.zero_off(step - version, mask)
  return {'staleness': age, 'stale': (age > 0).astype(jnp.float32)}
