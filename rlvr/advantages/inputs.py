"""What advantages read from a rollout, with one sentence where it is not there yet."""

import jax

from rlvr import groups
from rlvr import types

Array = jax.Array


def graded_reward(rollout: types.Rollout) -> tuple[Array, Array]:
  """Rewards f32[B], 0 on ungraded rows whatever they hold, and graded rows bool[B].

  Raises:
    ValueError: the rollout has no rewards yet.
  """
  if rollout.reward is None:
    raise ValueError('rollout.reward is None; an advantage is formed after the reward stage.')
  where = types.graded(rollout)
  return groups.zero_off(rollout.reward, where), where


def scored(rollout: types.Rollout, field: str, part: str) -> Array:
  """rollout.<field>, or a ValueError naming the option that scores before this stage."""
  value = getattr(rollout, field)
  if value is None:
    raise ValueError(
        f'{part} reads rollout.{field}, which is None at this stage; '
        'set config.score_first=True.')
  return value
