"""What a run remembers of each prompt: a running mean of its outcomes."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import memory
from rlvr import types

Array = jax.Array

NAME = 'success_rate'


def success_rate(
    *, initial: float = 0.5, strength: float = 1.0, decay: float = 0.8
) -> memory.Memory:
  """extras['prior'] f32[B]: the mean outcome of a row's prompt so far, discounted.

  prior = (strength * initial + sum_i outcome_i) / (strength + count), where both
  sums shrink by `decay` each time that the prompt is met again: the policy moves.

  Args:
    initial: the guess before anything is known, in units of the outcome.
    strength: how many responses the guess is worth, positive.
    decay: in [0, 1]; 1 forgets nothing.

  Returns:
    A Memory, one pair of numbers a training prompt. It reads prompts.id and
    columns (column 0 is the outcome) of graded rows; ids outside the training set
    are guessed at `initial` and not recorded.

  Raises:
    ValueError: an option is out of range.
  """
  if strength <= 0:
    raise ValueError(f'success_rate: strength={strength} must be positive (responses).')
  if not 0 <= decay <= 1:
    raise ValueError(f'success_rate: decay={decay} must lie in [0, 1].')

  def init(state, num_prompts):
    blank = {'total': jnp.zeros(num_prompts), 'count': jnp.zeros(num_prompts)}
    return state.replace(method=state.method | {NAME: blank})

  def read(rollout, state):
    kept = state.method[NAME]
    guess = (strength * initial + kept['total']) / (strength + kept['count'])
    ids = rollout.prompts.id[rollout.prompt]
    prior = guess.at[ids].get(mode='fill', fill_value=initial)
    return rollout.replace(extras=rollout.extras | {'prior': prior})

  def write(state, rollout, metrics):
    del metrics
    kept, where = state.method[NAME], types.graded(rollout)
    num_prompts = kept['count'].shape[0]
    # Padding and ungraded rows write beyond the end, which is dropped.
    ids = jnp.where(where, rollout.prompts.id[rollout.prompt], num_prompts)
    outcome = groups.zero_off(rollout.columns[:, 0], where)
    add = lambda x: jnp.zeros(num_prompts).at[ids].add(x, mode='drop')
    count = add(where.astype(jnp.float32))
    shrink = jnp.where(count > 0, decay, 1.0)
    new = {'total': shrink * kept['total'] + add(outcome),
           'count': shrink * kept['count'] + count}
    return state.replace(method=state.method | {NAME: new})

  return memory.Memory(init, read, write)
