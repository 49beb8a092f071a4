"""Log-probs, entropy and top-k from hidden states, in chunks: never an [N, V] array.

Each chunk's logits live only inside one step of a scan and are recomputed for
the gradient, so memory is chunk x V instead of N x V.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
NEG = -1e30  # a logit outside the support; finite, so that 0 * NEG is 0


class Truncation(NamedTuple):
  """Which tokens a sampler may draw; the same rule serves sampling and scoring.

  Attributes:
    top_k: keep the k most likely tokens; 0 keeps all.
    top_p: keep the smallest set of most likely tokens whose mass reaches top_p.
    min_p: keep tokens with at least min_p times the largest probability.
  """

  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0


NO_TRUNCATION = Truncation()


def sampling_logits(logits: Array, temperature: Array, truncation: Truncation) -> Array:
  """Logits of the distribution that a sampler draws from.

  In this order: divide by the temperature, keep the top k, keep the nucleus,
  keep what min-p allows. Removed tokens get a large negative finite logit.

  Args:
    logits: f32[N, V].
    temperature: f32[N]; where it is 0 (greedy rows) logits are used as they are.
    truncation: static; ties at a threshold are all kept.

  Returns:
    f32[N, V], not normalised.
  """
  temperature = jnp.where(temperature > 0, temperature, 1.0)
  logits = logits / temperature[:, None]
  if truncation.top_k:
    kth = jax.lax.top_k(logits, min(truncation.top_k, logits.shape[-1]))[0][:, -1:]
    logits = jnp.where(logits < kth, NEG, logits)
  if truncation.top_p < 1.0:
    ordered = jnp.sort(logits, axis=-1, descending=True)
    probs = jax.nn.softmax(ordered, axis=-1)
    # A token stays if the mass before it has not reached top_p yet.
    num_kept = jnp.sum(jnp.cumsum(probs, axis=-1) - probs < truncation.top_p, axis=-1)
    last = jnp.take_along_axis(ordered, jnp.maximum(num_kept, 1)[:, None] - 1, axis=-1)
    logits = jnp.where(logits < last, NEG, logits)
  if truncation.min_p > 0.0:
    floor = jnp.max(logits, axis=-1, keepdims=True) + jnp.log(truncation.min_p)
    logits = jnp.where(logits < floor, NEG, logits)
  return logits


def chunked_head(
    logits_fn: Callable[[Array], Array],
    hidden: Array,
    targets: Array,
    temperature: Array,
    *,
    query_ids: Array | None = None,
    num_top: int = 0,
    truncation: Truncation = NO_TRUNCATION,
    chunk: int = 192,
) -> dict[str, Array]:
  """What a loss may ask of the next-token distribution, by chunks of tokens.

  logp = log softmax(z / temperature)[target]; entropy = -sum p log p of the
  same distribution, in nats (temperature first, then normalise).

  Args:
    logits_fn: [C, d] -> f32[C, V].
    hidden: [N, d].
    targets: i32[N], ids in 0..V-1.
    temperature: f32[N].
    query_ids: i32[N, K] or None, further ids to give log-probs of.
    num_top: how many of the most likely tokens to return; 0 for none.
    truncation: the sampler's support rule, applied here too.
    chunk: tokens whose logits exist at once.

  Returns:
    'logp' f32[N], 'entropy' f32[N]; with query_ids 'query_logp' f32[N, K]; with
    num_top 'top_logp' f32[N, num_top] and 'top_ids' i32[N, num_top].
  """
  num_tokens = hidden.shape[0]
  num_chunks = -(-num_tokens // chunk)
  inputs = (hidden, targets, temperature) + (() if query_ids is None else (query_ids,))

  @jax.checkpoint
  def one_chunk(hidden, targets, temperature, query_ids=None):
    logits = sampling_logits(logits_fn(hidden), temperature, truncation)
    log_z = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    probs = jnp.exp(logits - log_z[:, None])
    out = {'logp': picked - log_z, 'entropy': log_z - jnp.sum(probs * logits, axis=-1)}
    if query_ids is not None:
      out['query_logp'] = jnp.take_along_axis(logits, query_ids, axis=-1) - log_z[:, None]
    if num_top:
      top, out['top_ids'] = jax.lax.top_k(logits, num_top)
      out['top_logp'] = top - log_z[:, None]
    return out

  if num_chunks <= 1:
    return one_chunk(*inputs)
  # Equal chunks, the last padded: a ragged tail would compile a second program.
  chunk = -(-num_tokens // num_chunks)
  pad = num_chunks * chunk - num_tokens

  def split(x):
    x = jnp.pad(x, [(0, pad)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(num_chunks, chunk, *x.shape[1:])

  _, out = jax.lax.scan(lambda _, xs: (None, one_chunk(*xs)), None, tuple(map(split, inputs)))
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num_tokens], out)
