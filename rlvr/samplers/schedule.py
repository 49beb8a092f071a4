"""Who is sampled next, and how many slots do it."""

import jax
import jax.numpy as jnp

from rlvr import types

Array = jax.Array

_NARROWEST = 8  # slots; below it a step costs its weights, not its rows


def widths(slots: int) -> list[int]:
  """Slots of each stage: halves of the last, down to _NARROWEST, at most four stages."""
  result = [slots]
  while result[-1] // 2 >= _NARROWEST and len(result) < 4:
    result.append(result[-1] // 2)
  return result


def units(rollout: types.Rollout, size: int) -> tuple[Array, Array]:
  """Work in order: i32[B, size] rows of one prompt each, B where absent; and their number.

  Started rows come before fresh ones (lowest-row-first would starve them), then
  the lowest row; a unit takes the place of its first row.
  """
  num_rows = rollout.where.shape[0]
  runnable = rollout.where & (rollout.stop == types.RUNNING)
  started = types.lengths(rollout) > 0
  rank = jnp.where(runnable, jnp.where(started, 0, 1), 2)
  order = jnp.argsort(rank, stable=True)  # place -> row
  prompt = jnp.where(runnable, rollout.prompt, rollout.prompts.tokens.shape[0])[order]
  by_prompt = jnp.argsort(prompt, stable=True)  # place sorted by prompt -> place
  sorted_prompt = prompt[by_prompt]
  place = jnp.arange(num_rows)
  run_start = jnp.searchsorted(sorted_prompt, sorted_prompt, side='left')
  position = (place - run_start) % size
  unit = jnp.cumsum(position == 0) - 1
  rows = order[by_prompt]
  real = sorted_prompt < rollout.prompts.tokens.shape[0]
  table = jnp.full((num_rows, size), num_rows).at[
      jnp.where(real, unit, num_rows), position].set(rows, mode='drop')
  first_place = jnp.full(num_rows, num_rows).at[
      jnp.where(real & (position == 0), unit, num_rows)].set(by_prompt, mode='drop')
  return table[jnp.argsort(first_place, stable=True)], jnp.sum(real & (position == 0))
