"""Step advantages from the states that a prompt's rollouts share: RTMC."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array


def rtmc(
    rollout: types.Rollout, *, kappa: float = 1.0, discount: float = 1.0, scale: str = 'none',
    eps: float = 1e-6,
) -> Array:
  """A = Q(s, a) - V(s) of the step that a token belongs to.

  With g = discount^(steps left) R, N counts of the rollouts' first visits and R' the
  mean of R over the group,

    Q(s, a) = mean of g over the rollouts of the group that took a in s
    V(s)    = (sum of g over s + kappa R') / (N(s) + kappa)

  A state that one rollout alone met has Q - its own return = 0; the prior R' gives it
  kappa / (1 + kappa) of the centred return instead.

  Args:
    rollout: reads reward, mask, group, graded, where, turn i32[B, T] (the step of
      each token; None: all of step 0) and extras['state_id'] and ['action_id']
      i32[B, K], the signatures of each step, -1 where there is none. Ids are
      compared within a group only. They must not depend on the outcome.
    kappa: visits that the prior is worth, at least 0; 0 is the pure tree.
    discount: gamma, in [0, 1].
    scale: 'none', or 'std': divide by the population std of R in the group plus eps.
    eps: see scale.

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows. A sole member and an all-equal
    group give 0 at discount 1. A pair met twice in a rollout counts once, at its
    first visit, and both visits get the same advantage.

  Raises:
    ValueError: an option out of range, or no signatures.

  Source: RTMC (arXiv 2604.11037). Provenance: abstract only, reconstructed: the
  smoothing, its default and the scale option are ours.
  """
  if kappa < 0:
    raise ValueError(f'rtmc: kappa={kappa} must be at least 0 (visits).')
  if not 0 <= discount <= 1:
    raise ValueError(f'rtmc: discount={discount} must lie in [0, 1].')
  if scale not in ('none', 'std'):
    raise ValueError(f"rtmc: scale={scale!r} must be 'none' or 'std'.")
  reward, where = inputs.graded_reward(rollout)
  state = inputs.extra(rollout, 'state_id', 'rtmc')
  action = inputs.extra(rollout, 'action_id', 'rtmc')
  shape = num_rows, num_steps = state.shape
  steps = where[:, None] & (state >= 0)

  # First visits: no earlier step of the rollout has the same state and action.
  same = (state[:, :, None] == state[:, None]) & (action[:, :, None] == action[:, None])
  earlier = jnp.tri(num_steps, k=-1, dtype=bool)[None]
  first = steps & ~jnp.any(same & earlier & steps[:, None], axis=2)

  left = jnp.sum(steps, axis=1, keepdims=True) - 1 - jnp.arange(num_steps)[None]
  returns = reward[:, None] * jnp.power(jnp.float32(discount), jnp.maximum(left, 0))
  average = groups.mean(reward, rollout.group, where)[:, None]
  flat = lambda x: jnp.broadcast_to(x, shape).reshape(-1)
  group = flat(rollout.group[:, None])
  node, edge = order.dense(group, flat(state)), order.dense(group, flat(state), flat(action))
  visits = flat(first)
  q = groups.mean(flat(returns), edge, visits)
  # Around R', so that equal returns give exactly 0.
  excess = groups.sum(flat(returns - average), node, visits)
  v = flat(average) + excess / jnp.maximum(groups.count(node, visits) + kappa, 1.0)
  advantage = groups.zero_off((q - v).reshape(shape), steps)
  if scale == 'std':
    spread = groups.std(reward, rollout.group, where)[:, None] + eps
    advantage = advantage / jnp.where(spread > 0, spread, 1.0)

  turn = jnp.zeros(rollout.tokens.shape, jnp.int32) if rollout.turn is None else rollout.turn
  known = (turn >= 0) & (turn < num_steps)
  credit = jnp.take_along_axis(advantage, jnp.where(known, turn, 0), axis=1)
  return groups.zero_off(credit, known & where[:, None] & (rollout.mask != 0))
