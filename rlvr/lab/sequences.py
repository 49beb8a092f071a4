"""Tasks with one right answer: sort digits, add two numbers."""

import jax
import jax.numpy as jnp

from rlvr.lab import task as task_lib

Array = jax.Array

_MOST_SORTED = 8
_MOST_DIGITS = 4


def sort() -> task_lib.Task:
  """3 to 8 digits, PAD to 8; the answer is the same digits ascending, then EOS.

  Level: how many digits. Partial: the share of the answer's positions that match.
  """
  levels, width, max_tokens = (3, _MOST_SORTED), _MOST_SORTED, 10

  def answer(prompts):
    digits = prompts[:, :width]
    length = jnp.sum(digits != task_lib.PAD, axis=1)
    # PAD sorts last.
    ordered = jnp.sort(jnp.where(digits == task_lib.PAD, task_lib.VOCAB_SIZE, digits), axis=1)
    return task_lib.as_answer(ordered, length, max_tokens)

  def draw(key, num):
    level_key, digit_key = jax.random.split(key)
    level = task_lib.draw_levels(level_key, num, levels)
    digits = task_lib.ZERO + jax.random.randint(digit_key, (num, width), 0, 10)
    kept = jnp.arange(width)[None] < level[:, None]
    prompts = task_lib.with_separator(jnp.where(kept, digits, task_lib.PAD))
    return task_lib.Drawn(prompts, answer(prompts), level)

  def verify(prompts, tokens, valid):
    return task_lib.match(answer(prompts), tokens, valid)

  return task_lib.Task(width + 1, max_tokens, levels, draw, verify)


def add() -> task_lib.Task:
  """'a+b' of 1 to 4 digits each, PAD to 9; the answer is the sum, low digit first, then EOS.

  Level: digits of a number (leading zeros are possible). Partial: the share of
  the answer's positions that match.
  """
  levels, width, max_tokens = (1, _MOST_DIGITS), 2 * _MOST_DIGITS + 1, 7

  def answer(prompts):
    ids = prompts[:, :width]
    plus = jnp.argmax(ids == task_lib.PLUS, axis=1)[:, None]
    place = jnp.arange(width)[None]
    digit = ids - task_lib.ZERO
    power = jnp.power(10, jnp.maximum(jnp.where(place < plus, plus - 1, 2 * plus) - place, 0))
    counted = (place != plus) & (place <= 2 * plus)
    total = jnp.sum(jnp.where(counted, digit * power, 0), axis=1)
    low_first = total[:, None] // 10 ** jnp.arange(_MOST_DIGITS + 1)[None]
    length = jnp.maximum(jnp.sum(low_first > 0, axis=1), 1)
    return task_lib.as_answer(task_lib.ZERO + low_first % 10, length, max_tokens)

  def draw(key, num):
    level_key, digit_key = jax.random.split(key)
    level = task_lib.draw_levels(level_key, num, levels)
    digits = task_lib.ZERO + jax.random.randint(digit_key, (num, width), 0, 10)
    place, n = jnp.arange(width)[None], level[:, None]
    ids = jnp.where(place == n, task_lib.PLUS, digits)
    prompts = task_lib.with_separator(jnp.where(place <= 2 * n, ids, task_lib.PAD))
    return task_lib.Drawn(prompts, answer(prompts), level)

  def verify(prompts, tokens, valid):
    return task_lib.match(answer(prompts), tokens, valid)

  return task_lib.Task(width + 1, max_tokens, levels, draw, verify)
