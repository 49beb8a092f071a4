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


def extra(rollout: types.Rollout, key: str, part: str) -> Array:
  """rollout.extras[key], or a ValueError that says who reads it and what there is."""
  if key not in rollout.extras:
    raise ValueError(
        f'{part} reads rollout.extras[{key!r}], which is not there; the keys are: '
        f'{", ".join(sorted(rollout.extras)) or "none"}.')
  return rollout.extras[key]


def correct(rollout: types.Rollout, at: float) -> Array:
  """bool[B]: graded rows whose raw outcome, column 0, is at least `at`.

  Raises:
    ValueError: the rollout has no columns.
  """
  if rollout.columns is None:
    raise ValueError('rollout.columns is None; outcomes are known after verification.')
  return types.graded(rollout) & (rollout.columns[:, 0] >= at)
