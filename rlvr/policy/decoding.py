"""The decoder in the sampler: prompts computed once, then one token a slot at a time."""

import functools
from typing import Any

import flax
import jax
import jax.numpy as jnp

from kernels import decode_attention as decode_kernel
from rlvr import types
from rlvr.policy import config as config_lib
from rlvr.policy import layers as layers_lib

Array = jax.Array
Params = Any

_LIVE_BUCKET = 64  # own keys are attended to in power-of-two multiples of this


@flax.struct.dataclass(kw_only=True)
class Prefix:
  """Prompts computed once: k, v [N, P, Hkv, L, hd], length i32[P], logits f32[P, V]."""

  k: Array
  v: Array
  length: Array
  logits: Array


@flax.struct.dataclass(kw_only=True)
class Cache:
  """The slots' own keys and values, [N, S, Hkv, T, hd]."""

  k: Array
  v: Array


def prefill(params: Params, config: config_lib.ModelConfig, prompts: types.Prompts, *,
            matmul=layers_lib.dense) -> Prefix:
  """Computes every prompt once; its K/V and last logits serve all its responses."""
  hidden, k, v = layers_lib.prompt_pass(params, config, prompts.tokens, matmul=matmul)
  last = hidden[jnp.arange(hidden.shape[0]), jnp.maximum(prompts.length - 1, 0)]
  k, v = jnp.swapaxes(k, 2, 3), jnp.swapaxes(v, 2, 3)
  first = layers_lib.head_logits(params, config, last)
  return Prefix(k=k, v=v, length=prompts.length, logits=first)


def init_cache(prefix: Prefix, num_slots: int, max_tokens: int) -> Cache:
  """Empty keys and values for `num_slots` slots of `max_tokens` positions."""
  num_layers, _, num_kv_heads, _, head_dim = prefix.k.shape
  shape = (num_layers, num_slots, num_kv_heads, max_tokens, head_dim)
  return Cache(k=jnp.zeros(shape, prefix.k.dtype), v=jnp.zeros(shape, prefix.v.dtype))


def decode_step(
    params: Params,
    config: config_lib.ModelConfig,
    prefix: Prefix,
    cache: Cache,
    block_prompt: Array,
    tokens: Array,
    t: Array,
    *,
    matmul=layers_lib.dense,
) -> tuple[Array, Cache]:
  """Writes token t of each slot into the cache and predicts token t + 1.

  Args:
    params: in compute dtype.
    config: the model's shape.
    prefix: from `prefill`.
    cache: [N, S, Hkv, T, hd]; carried and updated in place at [layer, slot, t].
    block_prompt: i32[C]; slots [S / C * c, S / C * (c + 1)) continue prompt
      block_prompt[c].
    tokens: i32[S].
    t: i32[S], response position of `tokens`, below T.
    matmul: as in make_policy.

  Returns:
    (f32[S, V], cache). A later slot is not affected by what a finished one holds.
  """
  c = config
  num_slots, max_tokens = cache.k.shape[1], cache.k.shape[3]
  slots = jnp.arange(num_slots)
  block_length = prefix.length[block_prompt]
  start = jnp.repeat(block_length, num_slots // block_prompt.shape[0],
                     total_repeat_length=num_slots)
  cos, sin = layers_lib.rotary_tables(c, start + t)
  spans = live_spans(max_tokens)
  span_index = jnp.searchsorted(jnp.array(spans), jnp.max(t) + 1)

  def attend(span, q, index, k, v):
    own_k, own_v = (jax.lax.dynamic_slice_in_dim(x[index], 0, span, axis=2) for x in (k, v))
    return decode_kernel.decode_attention(
        q, prefix.k[index, block_prompt], prefix.v[index, block_prompt], own_k, own_v,
        block_length, t)

  def block(carry, inputs):
    x, k_cache, v_cache = carry
    layer, index = inputs
    q, k, v = layers_lib.qkv(c, layer, x, cos, sin, matmul)
    k_cache = k_cache.at[index, slots, :, t].set(k)
    # A value that is no number would reach the slot's next row: 0 * NaN is NaN.
    v_cache = v_cache.at[index, slots, :, t].set(jnp.where(jnp.isfinite(v), v, 0))
    attended = jax.lax.switch(
        span_index, [functools.partial(attend, span) for span in spans],
        q, index, k_cache, v_cache)
    return (layers_lib.after_attention(c, layer, x, attended, matmul), k_cache, v_cache), None

  (x, k, v), _ = jax.lax.scan(
      block, (params['embed'][tokens], cache.k, cache.v),
      (params['layers'], jnp.arange(c.num_layers)))
  return layers_lib.head_logits(params, c, x), Cache(k=k, v=v)


def live_spans(max_tokens: int) -> list[int]:
  """Static widths of own keys to attend to: 64, 128, ... up to max_tokens."""
  spans = [min(_LIVE_BUCKET, max_tokens)]
  while spans[-1] < max_tokens:
    spans.append(min(2 * spans[-1], max_tokens))
  return spans
