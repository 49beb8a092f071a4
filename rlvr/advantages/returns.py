"""Advantages without a group: the raw reward, and token advantages from a critic."""

import jax
import jax.numpy as jnp

from rlvr import traces
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array

masked_gae = traces.masked_gae


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
    this plus rollout.value (`losses.value_loss`).

  Raises:
    ValueError: an option is out of range, or the rollout has no values.

  Source: GAE (arXiv 1506.02438).
  """
  for name, option in (('discount', discount), ('trace', trace)):
    if not 0 <= option <= 1:
      raise ValueError(f'gae: {name}={option} must lie in [0, 1].')
  return _from_critic(rollout, 'gae', discount, trace)


def sao(rollout: types.Rollout, *, discount: float = 1.0, horizon: float = 1.5) -> Array:
  """GAE whose lambda grows with the response: lambda(l) = 1 - 1 / (horizon * l).

  So the effective horizon, 1 / (1 - lambda), is `horizon` responses long whatever
  their length. One response a prompt is enough: no group, no centring.

  Args:
    rollout: reads reward, value, mask, graded, where; needs
      config.score_first=True. l is the response's policy tokens.
    discount: gamma, in [0, 1].
    horizon: in responses, at least 1.

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows; a row without policy tokens
    gives zeros. Its critic's target is the outcome: `losses.value_loss` with
    trace 1.

  Raises:
    ValueError: an option is out of range, or the rollout has no values.

  Source: SAO (arXiv 2607.07508). Provenance: two re-implementations read, no
  official code.
  """
  if not 0 <= discount <= 1 or horizon < 1:
    raise ValueError(
        f'sao: discount={discount} must lie in [0, 1] and horizon={horizon} be at least 1.')
  length = jnp.sum(rollout.mask != 0, axis=-1)
  return _from_critic(rollout, 'sao', discount, adaptive_trace(length, horizon))


def adaptive_trace(length: Array, horizon: float) -> Array:
  """f32[B]: 1 - 1 / (horizon * length); 0 for an empty response."""
  filled = length > 0
  return jnp.where(filled, 1.0 - 1.0 / (horizon * jnp.where(filled, length, 1)), 0.0)


def _from_critic(rollout, part, discount, trace):
  reward, where = inputs.graded_reward(rollout)
  value = inputs.scored(rollout, 'value', part)
  mask = rollout.mask * where[:, None]
  return traces.outcome_gae(reward, value, mask, discount=discount, trace=trace)
