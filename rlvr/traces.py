"""Generalised advantage estimation over the tokens of a mask: what advantages and targets share."""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups

Array = jax.Array


def masked_gae(
    reward: Array, value: Array, mask: Array, *, discount: float, trace: float | Array
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
    trace: lambda, one for all or f32[B].

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


def outcome_gae(
    outcome: Array, value: Array, mask: Array, *, discount: float, trace: float | Array
) -> Array:
  """`masked_gae` of an outcome f32[B] that is paid on the last token of the mask.

  A row without tokens has no place for its outcome and gives zeros.
  """
  per_token = outcome[:, None] * groups.last_token(mask)
  return masked_gae(per_token, value, mask, discount=discount, trace=trace)
