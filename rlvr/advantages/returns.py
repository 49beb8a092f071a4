"""Advantages without a group: the raw reward, and generalised advantage estimation."""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs
from rlvr.rewards import shaping

Array = jax.Array


def reinforce(rollout: types.Rollout) -> Array:
  """The raw reward, no baseline: A = r.

  Args:
    rollout: reads reward, graded, where.

  Returns:
    f32[B]; 0 on ungraded rows.

  Source: REINFORCE (Williams 1992).
  """
  reward, _ = inputs.graded_reward(rollout)
  return reward


def masked_gae(
    reward: Array, value: Array, mask: Array, *, discount: float, trace: float
) -> Array:
  """Generalised advantage estimation over the tokens of the mask.

  delta_t = u_t + discount * V_next - V_t, A_t = delta_t + discount * trace * A_next,
  where `next` is the next token of the mask, wherever it stands: padding and
  environment tokens are stepped over. V and A after the last one are 0.

  Args:
    reward: f32[B, T], u_t; read on the mask only.
    value: f32[B, T], V of the state before a token; read on the mask only.
    mask: f32[B, T].
    discount: gamma.
    trace: lambda.

  Returns:
    f32[B, T], 0 off the mask.

  Source: GAE (arXiv 1506.02438).
  """
  chex.assert_rank([reward, value, mask], 2)
  chex.assert_equal_shape([reward, value, mask])

  def step(carry, inputs_t):
    next_value, next_advantage = carry
    reward_t, value_t, kept = inputs_t
    delta = reward_t + discount * next_value - value_t
    advantage = delta + discount * trace * next_advantage
    carry = (jnp.where(kept, value_t, next_value), jnp.where(kept, advantage, next_advantage))
    return carry, jnp.where(kept, advantage, 0.0)

  columns = (groups.zero_off(reward, mask).T, groups.zero_off(value, mask).T, (mask != 0).T)
  end = jnp.zeros(mask.shape[:1], jnp.float32)
  return jax.lax.scan(step, (end, end), columns, reverse=True)[1].T


def gae(rollout: types.Rollout, *, discount: float = 1.0, trace: float = 0.95) -> Array:
  """Token advantages from a value model, the outcome paid on the last policy token.

  Args:
    rollout: reads reward, value, mask, graded, where; needs
      config.score_first=True.
    discount: gamma, in [0, 1].
    trace: lambda, in [0, 1].

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows. A row without policy tokens
    has no place for its reward and gives zeros. The target of a value loss is
    this plus rollout.value.

  Raises:
    ValueError: an option is out of range, or the rollout has no values.

  Source: GAE (arXiv 1506.02438).
  """
  for name, option in (('discount', discount), ('trace', trace)):
    if not 0 <= option <= 1:
      raise ValueError(f'gae: {name}={option} must lie in [0, 1].')
  reward, where = inputs.graded_reward(rollout)
  value = inputs.scored(rollout, 'value', 'gae')
  mask = rollout.mask * where[:, None]
  per_token = shaping.at_last_token(reward, mask)
  return masked_gae(per_token, value, mask, discount=discount, trace=trace)
