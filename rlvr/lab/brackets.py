"""The task with many right answers: close what is open."""

import jax
import jax.numpy as jnp

from rlvr.lab import task as task_lib

_LONGEST = 10
_DEEPEST = 16  # of the stack: an open prompt and a response that goes on opening


def bracket() -> task_lib.Task:
  """A walk of two bracket types that ends open; any balanced completion is right.

  Level: how many are open at the end, 1 to 6. Partial: the share of legal tokens
  (an opening one; the closing one that fits; EOS where nothing is open), an
  illegal one leaving the stack as it is. The demonstration closes at once.
  """
  levels, width, max_tokens = (1, 6), _LONGEST, 12

  def push(stack, depth, token):
    """One token on the stack machine: (stack, depth, legal)."""
    opens = (token == task_lib.OPEN_ROUND) | (token == task_lib.OPEN_SQUARE)
    top = jnp.where(depth > 0, stack[jnp.maximum(depth - 1, 0)], task_lib.PAD)
    closes = (depth > 0) & (token == top + 1)
    stack = jnp.where(opens, stack.at[jnp.minimum(depth, _DEEPEST - 1)].set(token), stack)
    return stack, depth + opens - closes, opens | closes

  def replay(ids):
    """The stack and its depth after a prompt i32[L]."""
    def step(carry, token):
      stack, depth, _ = push(*carry, token)
      return (stack, depth), None
    start = (jnp.zeros(_DEEPEST, jnp.int32), jnp.int32(0))
    return jax.lax.scan(step, start, ids)[0]

  def draw(key, num):
    level_key, extra_key, walk_key = jax.random.split(key, 3)
    level = task_lib.draw_levels(level_key, num, levels)
    pairs = jax.random.randint(extra_key, (num,), 0, (_LONGEST - level) // 2 + 1)
    noise = jax.random.uniform(walk_key, (num, width, 2))

    def walk(level, pairs, noise):
      length = level + 2 * pairs

      def step(carry, inputs):
        stack, depth, closes = carry
        t, u = inputs
        left = length - t
        # Uniform over the tokens still to come, as far as a walk allows.
        close = (depth > 0) & (u[0] * left < closes)
        kind = jnp.where(u[1] < 0.5, task_lib.OPEN_ROUND, task_lib.OPEN_SQUARE)
        token = jnp.where(close, stack[jnp.maximum(depth - 1, 0)] + 1, kind)
        token = jnp.where(t < length, token, task_lib.PAD)
        stack, depth, _ = push(stack, depth, token)
        return (stack, depth, closes - (close & (t < length))), token

      start = (jnp.zeros(_DEEPEST, jnp.int32), jnp.int32(0), pairs)
      (stack, depth, _), ids = jax.lax.scan(step, start, (jnp.arange(width), noise))
      place = jnp.arange(max_tokens)
      return ids, stack[jnp.clip(depth - 1 - place, 0, _DEEPEST - 1)] + 1, depth

    ids, closing, depth = jax.vmap(walk)(level, pairs, noise)
    return task_lib.Drawn(task_lib.with_separator(ids),
                          task_lib.as_answer(closing, depth, max_tokens), level)

  def verify(prompts, tokens, valid):
    def one(ids, tokens, valid):
      def step(carry, inputs):
        stack, depth = carry
        token, valid = inputs
        ends = token == task_lib.EOS
        new_stack, new_depth, legal = push(stack, depth, jnp.where(valid, token, task_lib.PAD))
        legal = valid & jnp.where(ends, depth == 0, legal)
        return (new_stack, new_depth), (legal, valid & ends & (depth == 0))
      _, (legal, ended) = jax.lax.scan(step, replay(ids), (tokens, valid))
      share = jnp.sum(legal) / jnp.maximum(jnp.sum(valid), 1)
      correct = jnp.any(ended) & (share == 1)
      return correct.astype(jnp.float32), share.astype(jnp.float32)
    return jax.vmap(one)(prompts[:, :width], tokens, valid)

  return task_lib.Task(width + 1, max_tokens, levels, draw, verify)
