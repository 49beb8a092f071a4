"""Further tokens that the sampler draws at each prefix and does not follow.

They are kept in a rollout's extras, ids i32[B, T, M] and their log-probabilities
f32[B, T, M] under what drew them; a rollout without these keys costs nothing.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlvr.policy import heads
from rlvr.samplers import choose as choose_lib

Array = jax.Array

IDS, LOGP = 'mc_ids', 'mc_rollout_logp'


def empty(num_rows: int, max_tokens: int, num: int) -> dict[str, Array]:
  """The extras of `num` draws a token; none for 0."""
  shape = (num_rows, max_tokens, num)
  return {IDS: jnp.zeros(shape, jnp.int32), LOGP: jnp.zeros(shape)} if num else {}


def record(
    extras: dict[str, Array], put: Callable[[Array, Array], Array], logits: Array, keys: Array,
    temperature: Array, truncation: heads.Truncation,
) -> dict[str, Array]:
  """The extras with a step's draws put in; unchanged where there are none.

  The M tokens of a slot are drawn with replacement from the distribution of the token
  that is followed, independent of it and of each other.

  Args:
    extras: of the rollout.
    put: (array [B, T, M], values [S, M]) -> the array with the slots' values.
    logits: f32[S, V].
    keys: typed [S], from which the followed token had its uniforms.
    temperature: f32[S].
    truncation: the support rule.
  """
  if IDS not in extras:
    return extras
  num = extras[IDS].shape[2]
  uniforms = jax.vmap(lambda k: jax.random.uniform(jax.random.fold_in(k, 1), (num, 2)))(keys)
  ids, logp = jax.vmap(lambda u: choose_lib.choose(logits, u, temperature, truncation),
                       in_axes=1, out_axes=1)(uniforms)
  return extras | {IDS: put(extras[IDS], ids), LOGP: put(extras[LOGP], logp)}
