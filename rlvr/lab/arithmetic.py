"""Tasks about small sums: a chain of operations, and Countdown."""

import jax
import jax.numpy as jnp

from rlvr.lab import task as task_lib

Array = jax.Array

_MOST_STEPS = 5
_MOST_NUMBERS = 4
_CANDIDATES = 16


def _apply(sign: Array, a: Array, b: Array) -> Array:
  """a sign b by the sign's id; anything that is no sign gives a."""
  return jnp.select(
      [sign == task_lib.PLUS, sign == task_lib.MINUS, sign == task_lib.TIMES],
      [a + b, a - b, a * b], a)


def chain() -> task_lib.Task:
  """'x op d op d ...' modulo 10, left to right; the response is digits, '#', the result, EOS.

  The digits before '#' are free: half the demonstrations give the result at
  once, half write every intermediate value first, so length can grow. Level: the
  number of operations, 1 to 5. Correct: the right digit in the right shape.
  Partial: 0.5 correct + 0.25 shape + 0.25 * the share of operations whose value
  stands at its place before '#'.
  """
  levels, width, max_tokens = (1, _MOST_STEPS), 1 + 2 * _MOST_STEPS, 12

  def values(prompts):
    """i32[P, 5] after each operation, and i32[P], how many there are."""
    ids = prompts[:, :width]
    value, steps = ids[:, 0] - task_lib.ZERO, []
    for i in range(_MOST_STEPS):
      value = _apply(ids[:, 1 + 2 * i], value, ids[:, 2 + 2 * i] - task_lib.ZERO) % 10
      steps.append(value)
    return jnp.stack(steps, axis=1), jnp.sum(ids[:, 1::2] != task_lib.PAD, axis=1)

  def draw(key, num):
    level_key, digit_key, sign_key, long_key = jax.random.split(key, 4)
    level = task_lib.draw_levels(level_key, num, levels)
    digits = task_lib.ZERO + jax.random.randint(digit_key, (num, width), 0, 10)
    signs = jax.random.randint(sign_key, (num, width), task_lib.PLUS, task_lib.TIMES + 1)
    place = jnp.arange(width)[None]
    ids = jnp.where(place % 2 == 1, signs, digits)
    prompts = task_lib.with_separator(jnp.where(place <= 2 * level[:, None], ids, task_lib.PAD))
    steps, count = values(prompts)
    shown = jnp.where(jax.random.bernoulli(long_key, shape=(num,)), count, 0)[:, None]
    place = jnp.arange(max_tokens)[None]
    last = jnp.take_along_axis(steps, count[:, None] - 1, axis=1)
    wide = jnp.pad(steps, ((0, 0), (0, max_tokens - _MOST_STEPS)))
    written = jnp.where(place < shown, task_lib.ZERO + wide,
                        jnp.where(place == shown, task_lib.HASH, task_lib.ZERO + last))
    return task_lib.Drawn(
        prompts, task_lib.as_answer(written, shown[:, 0] + 2, max_tokens), level)

  def verify(prompts, tokens, valid):
    steps, count = values(prompts)
    ids = jnp.where(valid, tokens, task_lib.PAD)
    place = jnp.arange(max_tokens)[None]
    hash_at = jnp.argmax(ids == task_lib.HASH, axis=1)[:, None]
    is_digit = (ids >= task_lib.ZERO) & (ids < task_lib.ZERO + 10)
    fits = jnp.where(place == hash_at, ids == task_lib.HASH,
                     jnp.where(place == hash_at + 2, ids == task_lib.EOS, is_digit))
    # EOS ends a row, so a shape with room for it holds nothing after it.
    shape = jnp.all(fits | (place > hash_at + 2), axis=1) & (hash_at[:, 0] + 2 < max_tokens)
    at = lambda i: jnp.take_along_axis(ids, jnp.minimum(i, max_tokens - 1), axis=1)[:, 0]
    last = jnp.take_along_axis(steps, count[:, None] - 1, axis=1)[:, 0]
    correct = shape & (at(hash_at + 1) == task_lib.ZERO + last)
    step_place = jnp.arange(_MOST_STEPS)[None]
    written = (step_place < count[:, None]) & (step_place < hash_at)
    right = written & (ids[:, :_MOST_STEPS] == task_lib.ZERO + steps)
    partial = 0.5 * correct + 0.25 * shape + 0.25 * jnp.sum(right, axis=1) / count
    return correct.astype(jnp.float32), partial.astype(jnp.float32)

  return task_lib.Task(width + 1, max_tokens, levels, draw, verify)


def countdown() -> task_lib.Task:
  """2 to 4 ascending numbers 1..9, SEP, a target 0..99; write an expression that gives it.

  The response is 'n op n op n', each number once, evaluated left to right, then
  EOS. Sixteen expressions are drawn and the first whose value is a legal target
  is kept, the last being a plain sum, so a solution exists. Level: how many
  numbers. Partial: 0.2 shape + 0.3 * the share of the numbers used + 0.5 correct.
  """
  levels, width, max_tokens = (2, _MOST_NUMBERS), _MOST_NUMBERS + 3, 9

  def evaluate(numbers, signs, count):
    value = numbers[..., 0]
    for i in range(1, _MOST_NUMBERS):
      value = jnp.where(i < count, _apply(signs[..., i - 1], value, numbers[..., i]), value)
    return value

  def draw(key, num):
    level_key, number_key, order_key, sign_key = jax.random.split(key, 4)
    level = task_lib.draw_levels(level_key, num, levels)
    numbers = jax.random.randint(number_key, (num, _MOST_NUMBERS), 1, 10)
    present = jnp.arange(_MOST_NUMBERS)[None] < level[:, None]
    numbers = jnp.sort(jnp.where(present, numbers, 99), axis=1)
    noise = jax.random.uniform(order_key, (num, _CANDIDATES, _MOST_NUMBERS))
    order = jnp.argsort(jnp.where(present[:, None], noise, 2.0), axis=-1)
    shuffled = jnp.take_along_axis(numbers[:, None].repeat(_CANDIDATES, 1), order, axis=-1)
    signs = jax.random.randint(
        sign_key, (num, _CANDIDATES, _MOST_NUMBERS - 1), task_lib.PLUS, task_lib.TIMES + 1)
    signs = signs.at[:, -1].set(task_lib.PLUS)
    value = evaluate(shuffled, signs, level[:, None])
    first = jnp.argmax((value >= 0) & (value < 100), axis=1)
    pick = lambda x: jax.vmap(lambda row, i: row[i])(x, first)
    shuffled, signs, target = pick(shuffled), pick(signs), pick(value)

    place, n = jnp.arange(width)[None], level[:, None]
    digits = task_lib.ZERO + jnp.pad(numbers, ((0, 0), (0, width - _MOST_NUMBERS)))
    ids = jnp.select(
        [place < n, place == n, place == n + 1, place == n + 2],
        [digits, task_lib.SEP, task_lib.ZERO + target[:, None] // 10,
         task_lib.ZERO + target[:, None] % 10], task_lib.PAD)
    written = jnp.zeros((num, 2 * _MOST_NUMBERS - 1), jnp.int32)
    written = written.at[:, ::2].set(task_lib.ZERO + shuffled).at[:, 1::2].set(signs)
    return task_lib.Drawn(
        task_lib.with_separator(ids), task_lib.as_answer(written, 2 * level - 1, max_tokens),
        level)

  def verify(prompts, tokens, valid):
    ids = prompts[:, :width]
    n = jnp.argmax(ids == task_lib.SEP, axis=1)[:, None]
    at = lambda x, i: jnp.take_along_axis(x, i, axis=1)[:, 0] - task_lib.ZERO
    target = 10 * at(ids, n + 1) + at(ids, n + 2)
    written = jnp.where(valid, tokens, task_lib.PAD)
    place = jnp.arange(max_tokens)[None]
    number = (written > task_lib.ZERO) & (written < task_lib.ZERO + 10)
    sign = (written >= task_lib.PLUS) & (written <= task_lib.TIMES)
    end = jnp.argmax(written == task_lib.EOS, axis=1)[:, None]
    fits = jnp.where(place % 2 == 0, number, sign) | (place >= end)
    shape = jnp.all(fits, axis=1) & (end[:, 0] % 2 == 1) & jnp.any(
        written == task_lib.EOS, axis=1)
    values = task_lib.ZERO + jnp.arange(10)[None, None]
    tally = lambda x, where: jnp.sum(where[..., None] & (x[..., None] == values), axis=1)
    given = tally(ids, jnp.arange(width)[None] < n)
    used = tally(written, place < jnp.where(end > 0, end, max_tokens))
    share = jnp.sum(jnp.minimum(given, used), axis=1) / n[:, 0]
    length = (end[:, 0] + 1) // 2
    numbers = written[:, :2 * _MOST_NUMBERS:2] - task_lib.ZERO
    value = evaluate(numbers, written[:, 1:2 * _MOST_NUMBERS:2], length)
    correct = shape & jnp.all(given == used, axis=1) & (value == target)
    partial = 0.2 * shape + 0.3 * share + 0.5 * correct
    return correct.astype(jnp.float32), partial.astype(jnp.float32)

  return task_lib.Task(width + 1, max_tokens, levels, draw, verify)
