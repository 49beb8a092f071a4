"""A Llama-like decoder as pure functions on a params pytree.

Llama (SmolLM2, Llama 3), Qwen2 and Qwen3 differ only in `ModelConfig`. Prompt
and response are two right-padded blocks: a prompt is computed once for all its
responses, in scoring and in sampling.

params = {'embed' [V, D], 'final_norm' [D], 'head' [D, V] unless tied,
'layers': {'attn_norm', 'mlp_norm' [N, D], 'qkv' [N, D, (Hq + 2 Hkv) hd], 'o' [N,
Hq hd, D], 'gate_up' [N, D, 2F], 'down' [N, F, D], and where the config has them
'qkv_bias', 'q_norm', 'k_norm'}}, matrices [in, out], layers stacked.
"""

import functools
import math
from typing import Any

import flax
import jax
import jax.numpy as jnp

from kernels import decode_attention as decode_kernel
from kernels import dual_attention as dual_kernel
from rlvr import types
from rlvr.policy import config as config_lib
from rlvr.policy import heads
from rlvr.policy import layers as layers_lib

Array = jax.Array
Params = Any

# What the backward pass keeps of each layer; the rest is recomputed.
REMAT = ('none', 'dots', 'full')
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


def dense(x: Array, w: Array) -> Array:
  """x [..., in] @ w [in, out], sums in f32, result in x's dtype."""
  out = jax.lax.dot_general(
      x, w, (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
  return out.astype(x.dtype)


def make_policy(
    config: config_lib.ModelConfig,
    *,
    compute_dtype: jnp.dtype = jnp.float32,
    remat: str = 'full',
    head_chunk: int = 256,
    num_top: int = 0,
    truncation: heads.Truncation = heads.NO_TRUNCATION,
    attention=dual_kernel.dual_attention,
    matmul=dense,
) -> types.Policy:
  """The functions of `types.Policy` for one model shape.

  Args:
    config: the model's shape.
    compute_dtype: of activations and of the weights in matmuls; master weights
      stay f32, as do norms, softmaxes and log-probs.
    remat: 'none' keeps all activations, 'dots' the results of matmuls, 'full'
      only the residual stream of each layer.
    head_chunk: tokens whose [chunk, V] logits exist at once when scoring.
    num_top: how many of the most likely tokens `score` returns.
    truncation: the support rule of the sampler that made the rows.
    attention: shared-prompt attention, as kernels.dual_attention.
    matmul: (x, w) -> x @ w for every weight of a block, as `dense`.

  Raises:
    ValueError: an unknown `remat`.
  """
  if remat not in REMAT:
    raise ValueError(f'remat is {remat!r}; expected one of {", ".join(REMAT)}.')
  cast = functools.partial(_cast, dtype=jnp.dtype(compute_dtype))
  return types.Policy(
      init=functools.partial(init, config=config),
      cast=cast,
      score=lambda params, rows, knobs, *, anchors=None: score(
          cast(params), config, rows, remat=remat, head_chunk=head_chunk, num_top=num_top,
          truncation=truncation, attention=attention, matmul=matmul),
      prefill=lambda params, prompts: prefill(cast(params), config, prompts, matmul=matmul),
      init_cache=init_cache,
      decode_step=lambda params, *args: decode_step(
          cast(params), config, *args, matmul=matmul),
  )


def init(key: Array, *, config: config_lib.ModelConfig) -> Params:
  """Random f32 params; matrices normal with standard deviation 1/sqrt(in). Consumes key."""
  c = config
  d_qkv = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim
  keys = iter(jax.random.split(key, 6))
  n = c.num_layers

  def matrix(*shape):
    return jax.random.normal(next(keys), shape) / math.sqrt(shape[-2])

  layers = {
      'attn_norm': jnp.ones((n, c.d_model)),
      'mlp_norm': jnp.ones((n, c.d_model)),
      'qkv': matrix(n, c.d_model, d_qkv),
      'o': matrix(n, c.num_heads * c.head_dim, c.d_model) / math.sqrt(2 * n),
      'gate_up': matrix(n, c.d_model, 2 * c.d_ff),
      'down': matrix(n, c.d_ff, c.d_model) / math.sqrt(2 * n),
  }
  if c.qkv_bias:
    layers['qkv_bias'] = jnp.zeros((n, d_qkv))
  if c.qk_norm:
    layers['q_norm'] = jnp.ones((n, c.head_dim))
    layers['k_norm'] = jnp.ones((n, c.head_dim))
  embed = jax.random.normal(next(keys), (c.vocab_size, c.d_model)) / math.sqrt(c.d_model)
  params = {'embed': embed, 'final_norm': jnp.ones(c.d_model), 'layers': layers}
  if not c.tie_embeddings:
    params['head'] = matrix(c.d_model, c.vocab_size)
  return params


def head_logits(params: Params, config: config_lib.ModelConfig, hidden: Array) -> Array:
  """f32[..., V] from the final hidden state [..., D], before the last norm."""
  hidden = layers_lib.rms_norm(hidden, params['final_norm'], config.norm_eps)
  w, axis = (params['embed'], 1) if config.tie_embeddings else (params['head'], 0)
  return jax.lax.dot_general(
      hidden, w, (((hidden.ndim - 1,), (axis,)), ((), ())), preferred_element_type=jnp.float32)


def logits(params: Params, config: config_lib.ModelConfig, tokens: Array) -> Array:
  """f32[B, T, V]: next-token logits of right-padded sequences i32[B, T].

  Padding needs no lengths: no real position sees what stands to its right.
  """
  hidden, _, _ = _prompt_pass(params, config, tokens, matmul=dense)
  return head_logits(params, config, hidden)


def score(
    params: Params,
    config: config_lib.ModelConfig,
    rows: types.Rollout | types.Batch,
    *,
    remat: str,
    head_chunk: int,
    num_top: int,
    truncation: heads.Truncation,
    attention,
    matmul,
) -> types.PolicyOutput:
  """Log-probs of every response token at its row's temperature (see make_policy).

  All tokens of prompts and responses travel as one flat list [p L + n (T - 1),
  D], so each weight is used once a layer; only attention sees two blocks. The
  last response token predicts nothing and is not computed.
  """
  c = config
  prompts, tokens = rows.prompts, rows.tokens
  (num_prompts, length), (num_rows, width) = prompts.tokens.shape, tokens.shape
  inputs = tokens[:, :-1]
  num_ctx = num_prompts * length
  ids = jnp.concatenate([prompts.tokens.reshape(-1), inputs.reshape(-1)])
  starts = prompts.length[rows.prompt]
  positions = jnp.concatenate([
      jnp.tile(jnp.arange(length), num_prompts),
      (starts[:, None] + jnp.arange(width - 1)[None]).reshape(-1)])
  cos, sin = layers_lib.rotary_tables(c, positions)

  def split(x):
    ctx = x[:num_ctx].reshape(num_prompts, length, *x.shape[1:])
    return ctx, x[num_ctx:].reshape(num_rows, width - 1, *x.shape[1:])

  def block(x, layer):
    (q_ctx, q), (k_ctx, k), (v_ctx, v) = map(
        split, layers_lib.qkv(c, layer, x, cos, sin, matmul))
    attended = [dual_kernel.causal_attention(q_ctx, k_ctx, v_ctx)]
    if width > 1:
      attended.append(attention(q, k_ctx, v_ctx, k, v, rows.prompt, prompts.length))
    attended = jnp.concatenate([a.reshape(-1, *a.shape[2:]) for a in attended])
    return layers_lib.after_attention(c, layer, x, attended, matmul), None

  if remat == 'full':
    block = jax.checkpoint(block)
  elif remat == 'dots':
    block = jax.checkpoint(
        block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
  x, _ = jax.lax.scan(block, params['embed'][ids], params['layers'])

  # Token t of a response is predicted by token t - 1, the first by its prompt's last.
  ctx, own = split(x)
  first = ctx[jnp.arange(num_prompts), jnp.maximum(prompts.length - 1, 0)][rows.prompt]
  hidden = jnp.concatenate([first[:, None], own], axis=1)
  out = heads.chunked_head(
      functools.partial(head_logits, params, c),
      hidden.reshape(num_rows * width, c.d_model),
      tokens.reshape(-1),
      jnp.repeat(rows.temperature, width, total_repeat_length=num_rows * width),
      query_ids=_query_ids(rows, num_rows * width),
      num_top=num_top, truncation=truncation, chunk=head_chunk)
  out = jax.tree.map(lambda a: a.reshape(num_rows, width, *a.shape[1:]), out)
  return types.PolicyOutput(hidden=hidden, **out)


def prefill(params: Params, config: config_lib.ModelConfig, prompts: types.Prompts, *,
            matmul=dense) -> Prefix:
  """Computes every prompt once; its K/V and last logits serve all its responses."""
  hidden, k, v = _prompt_pass(params, config, prompts.tokens, matmul=matmul)
  last = hidden[jnp.arange(hidden.shape[0]), jnp.maximum(prompts.length - 1, 0)]
  k, v = jnp.swapaxes(k, 2, 3), jnp.swapaxes(v, 2, 3)
  return Prefix(k=k, v=v, length=prompts.length, logits=head_logits(params, config, last))


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
    matmul=dense,
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
    v_cache = v_cache.at[index, slots, :, t].set(v)
    attended = jax.lax.switch(
        span_index, [functools.partial(attend, span) for span in spans],
        q, index, k_cache, v_cache)
    return (layers_lib.after_attention(c, layer, x, attended, matmul), k_cache, v_cache), None

  (x, k, v), _ = jax.lax.scan(
      block, (params['embed'][tokens], cache.k, cache.v),
      (params['layers'], jnp.arange(c.num_layers)))
  return head_logits(params, c, x), Cache(k=k, v=v)


def live_spans(max_tokens: int) -> list[int]:
  """Static widths of own keys to attend to: 64, 128, ... up to max_tokens."""
  spans = [min(_LIVE_BUCKET, max_tokens)]
  while spans[-1] < max_tokens:
    spans.append(min(2 * spans[-1], max_tokens))
  return spans


def _prompt_pass(params, config, tokens, *, matmul):
  """Hidden states [P, L, D] and K/V [N, P, L, Hkv, hd] of whole sequences."""
  cos, sin = layers_lib.rotary_tables(config, jnp.arange(tokens.shape[1])[None])

  def block(x, layer):
    q, k, v = layers_lib.qkv(config, layer, x, cos, sin, matmul)
    attended = dual_kernel.causal_attention(q, k, v)
    return layers_lib.after_attention(config, layer, x, attended, matmul), (k, v)

  x, (k, v) = jax.lax.scan(block, params['embed'][tokens], params['layers'])
  return x, k, v


def _query_ids(rows, num_tokens):
  ids = rows.query_ids if isinstance(rows, types.Batch) else None
  return None if ids is None else ids.reshape(num_tokens, -1)


def _cast(params, dtype):
  """Floating weights in the compute dtype; norms too, their statistics stay f32."""
  return jax.tree.map(lambda w: w.astype(dtype), params)
