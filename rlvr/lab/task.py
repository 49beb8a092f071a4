"""What a laboratory task is, and its vocabulary: everything in JAX, so that a run is one program.

A prompt is P + 1 ids of a fixed width, PAD included as an ordinary token, the
last one SEP. A response is digits and signs up to EOS; what follows is not part
of it. Prompts are fresh every step, so there is no data set to memorise; a level
is drawn first and uniformly, which gives the graded difficulty.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

PAD, EOS, SEP = 0, 1, 2
ZERO = 3  # digits are ZERO ... ZERO + 9
PLUS, MINUS, TIMES, HASH = 13, 14, 15, 16
OPEN_ROUND, CLOSE_ROUND, OPEN_SQUARE, CLOSE_SQUARE = 17, 18, 19, 20
VOCAB_SIZE = 24
_TEXT = ('_', '.', '|', *'0123456789', '+', '-', '*', '#', '(', ')', '[', ']', '?', '?', '?')


class Drawn(NamedTuple):
  """Problems: prompts i32[P, L], demonstrations i32[P, T] up to EOS, level i32[P]."""

  prompts: Array
  demonstration: Array
  level: Array


class Task(NamedTuple):
  """A task as pure functions.

  Attributes:
    prompt_length: L, ids of a prompt, the closing SEP included.
    max_tokens: T, most ids of a response, EOS included.
    levels: the lowest and the highest level.
    draw: (key, num) -> Drawn; consumes the key.
    verify: (prompts i32[B, L], tokens i32[B, T], valid bool[B, T]) ->
      (correct f32[B] of 0 and 1, partial f32[B] in 0 ... 1).
  """

  prompt_length: int
  max_tokens: int
  levels: tuple[int, int]
  draw: Callable[[Array, int], Drawn]
  verify: Callable[[Array, Array, Array], tuple[Array, Array]]


def with_separator(prompts: Array) -> Array:
  """i32[P, L] -> i32[P, L + 1], SEP last, so that the prompt predicts the first response id."""
  return jnp.pad(prompts, ((0, 0), (0, 1)), constant_values=SEP)


def draw_levels(key: Array, num: int, levels: tuple[int, int]) -> Array:
  """i32[num], uniform over the levels."""
  return jax.random.randint(key, (num,), levels[0], levels[1] + 1)


def as_answer(tokens: Array, length: Array, max_tokens: int) -> Array:
  """i32[P, T]: the first `length` ids of each row, then EOS, then PAD."""
  wide = jnp.pad(tokens, ((0, 0), (0, max(0, max_tokens - tokens.shape[1]))))[:, :max_tokens]
  place = jnp.arange(max_tokens)[None]
  return jnp.where(place < length[:, None], wide, jnp.where(place == length[:, None], EOS, PAD))


def match(answer: Array, tokens: Array, valid: Array) -> tuple[Array, Array]:
  """Exact match with the one right answer, and the share of its positions that match.

  Args:
    answer: i32[B, T], from `as_answer`; its positions are those up to EOS.
    tokens: i32[B, T].
    valid: bool[B, T].

  Returns:
    (correct, share) f32[B]. What the response writes after the answer's end does
    not enter the share: a partial reward that a policy can fool by going on.
  """
  counted = answer != PAD
  right = counted & valid & (tokens == answer)
  share = jnp.sum(right, axis=1) / jnp.sum(counted, axis=1)
  return (share == 1).astype(jnp.float32), share.astype(jnp.float32)


def text(tokens: Array) -> str:
  """The ids i32[T] as characters, for a notebook: PAD '_', EOS '.', SEP '|'."""
  return ''.join(_TEXT[int(i)] for i in tokens)
