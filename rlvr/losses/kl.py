"""The pull to a reference policy: estimators of KL(policy || reference), and the loss.

An estimator is (logp, ref_logp) -> f32, of any one shape. With d = ref_logp - logp,
clamped to +-20 before anything is exponentiated. All three have the right mean on
samples of the policy (k2 only to second order), but as losses they differ: what
is averaged when differentiated is d(estimator)/d(logp) * grad logp, and

  k1: 1 * grad logp         has mean 0: no pull at all
  k2: (logp - ref) grad logp  has mean grad KL(policy || reference)
  k3: (1 - e^d) grad logp   has mean grad KL(reference || policy)

so k2 is the default of the loss.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec
from rlvr import types
from rlvr.losses import ratios

Array = jax.Array


def _difference(logp, ref_logp):
  chex.assert_equal_shape([logp, ref_logp])
  difference = ref_logp.astype(jnp.float32) - logp.astype(jnp.float32)
  return jnp.clip(difference, -ratios.MAX_LOG_RATIO, ratios.MAX_LOG_RATIO)


def k1(logp: Array, ref_logp: Array) -> Array:
  """-d = logp - ref_logp: unbiased, of either sign; as a loss it has no gradient on average."""
  return -_difference(logp, ref_logp)


def k2(logp: Array, ref_logp: Array) -> Array:
  """d^2 / 2, at least 0: as a loss, the gradient of the reverse KL on policy."""
  return jnp.square(_difference(logp, ref_logp)) / 2


def k3(logp: Array, ref_logp: Array) -> Array:
  """e^d - d - 1, at least 0, zero iff equal (to rounding): GRPO's published anchor.

  Beyond 20 nats it is constant: value 4.85e8, gradient 0, both finite.
  Computed by expm1, which keeps a small d's digits.
  """
  difference = _difference(logp, ref_logp)
  return jnp.maximum(jnp.expm1(difference) - difference, 0.0)


def unbiased(logp: Array, ref_logp: Array) -> Array:
  """k3 in value, at least 0, with the gradient of k2: that of the reverse KL on policy.

  It is the on-policy case of rho * k3, rho = pi / frozen(pi): d(rho k3) = (k3 + 1 - e^d)
  grad logp = -d grad logp.

  Source: DeepSeek-V3.2 (arXiv 2512.02556), unbiased KL estimate; from knowledge.
  """
  square = k2(logp, ref_logp)
  return jax.lax.stop_gradient(k3(logp, ref_logp) - square) + square


def kl_loss(
    out: types.PolicyOutput, cell: types.Batch, knobs: dict[str, Array], *, estimator=k2
) -> tuple[Array, dict[str, Array]]:
  """An estimator of KL(policy || reference) on each token, as a loss.

  Args:
    out: reads logp f32[n, T].
    cell: reads ref_logp, mask.
    knobs: not read; the coefficient is the term's own.
    estimator: a part of KL_ESTIMATORS. k2 has the gradient of the KL on policy;
      k3 is what GRPO prints, with the gradient of the forward KL.

  Returns:
    terms f32[n, T], 0 off the mask; metrics ref_kl, the k3 value whatever the
    estimator (at least 0, small variance).

  Raises:
    ValueError: the cell has no ref_logp.

  Source: DeepSeekMath (arXiv 2402.03300) for k3 in the loss; the default
  departs from it because of the gradient above. With several updates a batch
  the samples are the old policy's and the gradient is right to first order only.
  """
  del knobs
  if cell.ref_logp is None:
    raise ValueError('kl_loss reads cell.ref_logp, which is None; the run has no ref anchor.')
  logp = ratios.on_mask(out.logp, cell.mask)
  ref_logp = jax.lax.stop_gradient(ratios.on_mask(cell.ref_logp, cell.mask))
  terms = groups.zero_off(estimator(logp, ref_logp), cell.mask)
  return terms, {'ref_kl': jax.lax.stop_gradient(k3(logp, ref_logp))}


KL_ESTIMATORS = spec.make_table(k1, k2, k3, unbiased)
