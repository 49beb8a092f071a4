"""Less pay for right answers reached by flawed reasoning: FAPO."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array


def fapo(rollout: types.Rollout, *, penalty: float = 1.0, correct_at: float = 1.0) -> Array:
  """1 for a right answer and -1 for a wrong one, less `penalty` for a right, flawed one.

  In a group with `clean` right and sound answers and `wrong` ones, the
  group-normalised advantage of a flawed one is positive iff clean / wrong <
  2 / penalty - 1, however many are flawed: at 1 flawed successes are reinforced
  while most answers are wrong, and pushed down afterwards.

  Args:
    rollout: reads columns (0 is the outcome), graded, where and
      extras['first_error'] i32[B], the response position of the first wrong step;
      -1 (none, or the judge could not tell) is sound.
    penalty: lambda, in [0, 2]: at 0 it is the outcome as 1 and -1, at 2 a flawed
      right answer is worth a wrong one.
    correct_at: outcome from which an answer is right.

  Returns:
    f32[B]; 0 on ungraded rows. A wrong answer pays nothing more for its flaws.

  Raises:
    ValueError: penalty out of range, or no first_error.

  Source: FAPO (arXiv 2510.22543). Provenance: official code read
  (verl-project/verl-recipe:fapo/reward_fn_reasoning.py), abstract and a review;
  the threshold is re-derived.
  """
  if not 0 <= penalty <= 2:
    raise ValueError(f'fapo: penalty={penalty} must lie in [0, 2].')
  right = inputs.correct(rollout, correct_at)
  flawed = right & (inputs.extra(rollout, 'first_error', 'fapo') >= 0)
  reward = jnp.where(right, 1.0, -1.0) - jnp.where(flawed, penalty, 0.0)
  return groups.zero_off(reward, types.graded(rollout))
