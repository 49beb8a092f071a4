"""Drawing one token a slot, and the log-probability of what was drawn."""

import jax
import jax.numpy as jnp

from rlvr.policy import heads

Array = jax.Array

_CHUNK = 256  # tokens of one inversion step


def choose(
    logits: Array,
    uniforms: Array,
    temperature: Array,
    truncation: heads.Truncation,
) -> tuple[Array, Array]:
  """Draws from softmax(sampling_logits) by inverting its distribution function.

  The vocabulary is cut into chunks; the first uniform picks a chunk by its
  mass, the second a token inside it. Two numbers a row replace the V that the
  Gumbel trick needs, which on CPU costs more than the rest of the step, and the
  second keeps the resolution that one f32 uniform loses over a large V.

  Args:
    logits: f32[S, V].
    uniforms: f32[S, 2], in [0, 1).
    temperature: f32[S]; 0 is greedy, ties to the lowest id, log-probability 0.
    truncation: the support rule.

  Returns:
    tokens i32[S] and logp f32[S] under the distribution drawn from. A row with
    a NaN gives logp NaN: the caller ends it.
  """
  logits = heads.sampling_logits(logits, temperature, truncation)
  num_slots, vocab = logits.shape
  chunk = min(_CHUNK, vocab)
  # Padding has no mass and is no maximum.
  chunked = jnp.pad(logits, ((0, 0), (0, -vocab % chunk)), constant_values=-jnp.inf)
  chunked = chunked.reshape(num_slots, -1, chunk)
  chunk_top = jnp.max(chunked, axis=-1)
  top = jnp.max(chunk_top, axis=-1, keepdims=True)
  mass = jnp.exp(chunked - top[:, :, None])
  chunk_mass = jnp.sum(mass, axis=-1)
  picked_chunk = _invert(chunk_mass, uniforms[:, 0])
  picked = picked_chunk * chunk + _invert(_at(mass, picked_chunk), uniforms[:, 1])
  # The first maximum, by chunk: an argmax over V costs more than all of the above.
  best_chunk = jnp.argmax(chunk_top == top, axis=-1)
  best = best_chunk * chunk + jnp.argmax(_at(chunked, best_chunk) == top, axis=-1)

  greedy = temperature == 0
  tokens = jnp.where(greedy, best, picked).astype(jnp.int32)
  log_z = jnp.log(jnp.sum(chunk_mass, axis=-1)) + top[:, 0]
  logp = jnp.take_along_axis(logits, tokens[:, None], axis=-1)[:, 0] - log_z
  return tokens, jnp.where(greedy & ~jnp.isnan(log_z), 0.0, logp)


def _at(chunked: Array, index: Array) -> Array:
  """Row s of chunk index[s]: [S, C, K] and [S] -> [S, K]."""
  return jnp.take_along_axis(chunked, index[:, None, None], axis=1)[:, 0]


def _invert(mass: Array, uniform: Array) -> Array:
  """The index where the running sum of mass f32[S, K] passes uniform * total.

  The first such index that has mass itself: a parallel running sum is not exactly
  flat, nor monotone, where nothing is added, so an empty place can seem to pass
  the target. Where rounding leaves the target past every sum, the last index
  with mass takes it. Either way a token without mass is never drawn.
  """
  running = jnp.cumsum(mass, axis=-1)
  target = uniform[:, None] * running[:, -1:]
  size = mass.shape[-1]
  place = jnp.arange(size)[None]
  index = jnp.min(jnp.where((running > target) & (mass > 0), place, size), axis=-1)
  last = jnp.max(jnp.where(mass > 0, place, 0), axis=-1)
  return jnp.minimum(index, last)
