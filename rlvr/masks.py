"""Which tokens a loss term acts on: (rollout) -> f32[B, T] of 0 and 1.

A term's mask shrinks the divisors of its aggregate. Rows that hold no response
are 0 in every entry.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec
from rlvr import types
from rlvr.advantages import inputs
from rlvr.advantages import reused_turns

Array = jax.Array


def policy_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: tokens that the policy wrote and that may be trained (`rollout.mask`)."""
  return jnp.where(rollout.where[:, None], (rollout.mask != 0).astype(jnp.float32), 0.0)


def environment_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: real tokens that the policy may not train on, such as tool output."""
  other = rollout.valid & (rollout.mask == 0)
  return (other & rollout.where[:, None]).astype(jnp.float32)


def observed_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: environment tokens after the row's first policy token, as ECHO predicts them."""
  acted = jnp.cumsum(policy_tokens(rollout), axis=1) > 0
  return jnp.where(acted, environment_tokens(rollout), 0.0)


def valid_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: every real token of the response block."""
  return (rollout.valid & rollout.where[:, None]).astype(jnp.float32)


def graded_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: policy tokens of rows with a verdict: what a critic can learn from."""
  return jnp.where(types.graded(rollout)[:, None], policy_tokens(rollout), 0.0)


def two_sided_tokens(rollout: types.Rollout, *, right_above: float = 0.5) -> Array:
  """f32[B, T]: policy tokens of graded rows of groups with right and wrong responses.

  Empty responses leave their group before it is judged. Only such groups can be
  contrasted, and an aggregate over prompts then counts no other.

  Args:
    rollout: reads reward, mask, group, graded, where.
    right_above: a reward above this is right.

  Source: ConSPO (arXiv 2605.12969), reconstructed.
  """
  tokens = graded_tokens(rollout)
  where = jnp.any(tokens != 0, axis=1)
  reward, _ = inputs.graded_reward(rollout)
  right = where & (reward > right_above)
  num_right, num_all = (groups.count(rollout.group, x) for x in (right, where))
  return jnp.where(((num_right > 0) & (num_right < num_all))[:, None], tokens, 0.0)


def last_marker(tokens: Array, mask: Array, marker: tuple) -> Array:
  """i32[B]: where the last occurrence of a marker starts; -1 where there is none.

  The marker and the token before it must be on the mask, so that a position is
  at least 1: the token before is the anchor, the last that is read before the
  marker is written.

  Args:
    tokens: i32[B, T].
    mask: f32[B, T].
    marker: token ids, at least one.
  """
  (num_rows, width), size = tokens.shape, len(marker)
  if width <= size:
    return jnp.full(num_rows, -1, jnp.int32)
  here = jnp.ones((num_rows, width - size), bool)
  for place, token in enumerate(marker, start=1):
    here &= (tokens[:, place:width - size + place] == token)
  kept = mask != 0
  for place in range(size + 1):
    here &= kept[:, place:width - size + place]
  place = jnp.arange(1, width - size + 1, dtype=jnp.int32)
  return jnp.max(jnp.where(here, place[None], -1), axis=1)


def answer_anchor(
    rollout: types.Rollout, *, marker: tuple = (), correct_at: float = 1.0
) -> Array:
  """f32[B, T]: one token of each right answer: the first of its last answer marker.

  The hidden state that predicts that token is the state at the anchor, the token
  before it. Only groups with two such rows or more have any, so that an aggregate
  over prompts counts no other.

  Args:
    rollout: reads tokens, mask, columns (0 is the outcome), group, graded, where.
    marker: token ids of what announces the answer ('<answer>'). A tokenizer that
      merges may write the same text in other ids, which is not found.
    correct_at: outcome from which an answer is right.

  Raises:
    ValueError: no marker, or the rollout has no columns.

  Source: Hidden-Align (arXiv 2606.03234), reconstructed.
  """
  if not marker:
    raise ValueError('answer_anchor: marker=() needs at least one token id.')
  start = last_marker(rollout.tokens, rollout.mask, marker)
  where = inputs.correct(rollout, correct_at) & (start >= 0)
  where &= groups.count(rollout.group, where) > 1
  at = jnp.arange(rollout.mask.shape[1])[None] == start[:, None]
  return (at & where[:, None]).astype(jnp.float32)


def credited_tokens(
    rollout: types.Rollout, *, scope: str = 'last', low: float = 0.0
) -> Array:
  """f32[B, T]: policy tokens that `advantages.echo_memory` credits, of failed rollouts too.

  Args:
    rollout: reads turn, mask, where and the extras of `advantages.echo_memory`.
    scope, low: its options; with low above 0 these are all the trained tokens.

  Raises:
    ValueError: an option out of range, or an extra is missing.

  Source: ECHO (arXiv 2606.31650), reconstructed.
  """
  return (reused_turns.token_credit(rollout, scope=scope, low=low) != 0).astype(jnp.float32)


MASKS = spec.make_table(
    policy_tokens, environment_tokens, valid_tokens, graded_tokens, two_sided_tokens,
    answer_anchor, observed_tokens, credited_tokens)
