"""REINFORCE++: token advantages whitened over the whole batch instead of inside each group.

Both forms are (rollout) -> f32[B, T]. The mean and variance are over tokens, not
responses, so a group's advantages need not sum to 0.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import returns
from rlvr.advantages import transforms
from rlvr.losses import kl
from rlvr.losses import ratios
from rlvr.rewards import shaping

Array = jax.Array


def reinforce_pp(
    rollout: types.Rollout, *, coef: float = 0.01, discount: float = 1.0
) -> Array:
  """A = whiten(R), R_t = u_t + discount * R_next the return to go of a token.

  u_t = -coef * (old_logp_t - ref_logp_t), plus r on the last policy token. `next`
  is the row's next policy token. Works with one response a prompt.

  Args:
    rollout: reads reward, mask, graded, where, and with coef > 0 old_logp and
      ref_logp; needs config.score_first=True then.
    coef: beta, per nat, at least 0; 0 reads no log-probabilities.
    discount: gamma, in [0, 1].

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows, mean 0 and variance 1 over the
    batch's policy tokens. A batch without spread gives zeros. An all-equal group
    is 0 only if its returns are the batch's mean.

  Raises:
    ValueError: an option is out of range, or a log-probability is not scored yet.

  Source: REINFORCE++ (arXiv 2501.03262). Provenance: code read (OpenRLHF
  experience_maker.py, by the method's authors' group; volcengine/verl
  core_algos.py); paper from knowledge.
  """
  if coef < 0:
    raise ValueError(f'reinforce_pp: coef={coef} must be at least 0.')
  if not 0 <= discount <= 1:
    raise ValueError(f'reinforce_pp: discount={discount} must lie in [0, 1].')
  reward, where = inputs.graded_reward(rollout)
  mask = jnp.where(where[:, None], rollout.mask, 0.0)
  per_token = shaping.at_last_token(reward, mask)
  if coef > 0:
    old, ref = (ratios.on_mask(inputs.scored(rollout, name, 'reinforce_pp'), mask)
                for name in ('old_logp', 'ref_logp'))
    per_token -= coef * kl.k1(old, ref)
  nothing = jnp.zeros_like(per_token)  # without values GAE at trace 1 is the return to go
  to_go = returns.masked_gae(per_token, nothing, mask, discount=discount, trace=1.0)
  return jax.lax.stop_gradient(transforms.whiten_batch(to_go, rollout))


def reinforce_pp_baseline(rollout: types.Rollout) -> Array:
  """A = whiten(r - mean of the group), on every policy token.

  A KL is a loss of its own: ":losses.kl=kl_loss" with estimator k2.

  Args:
    rollout: reads reward, mask, group, graded, where.

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows. An all-equal group enters as 0
    and leaves as -mean/std of the batch, small but not silent; a batch without
    any spread gives zeros. Needs two responses a prompt; `reinforce_pp` does not.

  Source: REINFORCE++ (arXiv 2501.03262). Provenance: code read (OpenRLHF
  experience_maker.py; volcengine/verl core_algos.py); paper from knowledge.
  """
  centred = group_relative.dr_grpo(rollout)
  per_token = groups.zero_off(
      jnp.broadcast_to(centred[:, None], rollout.mask.shape), rollout.mask)
  return transforms.whiten_batch(per_token, rollout)
