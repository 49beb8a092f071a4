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

import jax
import jax.numpy as jnp

from kernels import dual_attention as dual_kernel
from rlvr import types
from rlvr.policy import config as config_lib
from rlvr.policy import decoding
from rlvr.policy import heads
from rlvr.policy import layers as layers_lib

Array = jax.Array
Params = Any

# What the backward pass keeps of each layer; the rest is recomputed.
REMAT = ('none', 'dots', 'full')


def make_policy(
    config: config_lib.ModelConfig,
    *,
    compute_dtype: jnp.dtype = jnp.float32,
    remat: str = 'full',
    head_chunk: int = 192,
    num_top: int = 0,
    truncation: heads.Truncation = heads.NO_TRUNCATION,
    attention=dual_kernel.dual_attention,
    matmul=layers_lib.dense,
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
    matmul: (x, w) -> x @ w for every weight of a block, as layers.dense.

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
      prefill=lambda params, prompts: decoding.prefill(
          cast(params), config, prompts, matmul=matmul),
      init_cache=decoding.init_cache,
      decode_step=lambda params, *args: decoding.decode_step(
          cast(params), config, *args, matmul=matmul),
      take_slots=lambda cache, slots: jax.tree.map(lambda x: x[:, slots], cache),
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


def logits(params: Params, config: config_lib.ModelConfig, tokens: Array) -> Array:
  """f32[B, T, V]: next-token logits of right-padded sequences i32[B, T].

  Padding needs no lengths: no real position sees what stands to its right.
  """
  hidden, _, _ = layers_lib.prompt_pass(params, config, tokens, matmul=layers_lib.dense)
  return layers_lib.head_logits(params, config, hidden)


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
      functools.partial(layers_lib.head_logits, params, c),
      hidden.reshape(num_rows * width, c.d_model),
      tokens.reshape(-1),
      jnp.repeat(rows.temperature, width, total_repeat_length=num_rows * width),
      query_ids=_query_ids(rows, num_rows * width),
      num_top=num_top, truncation=truncation, chunk=head_chunk)
  out = jax.tree.map(lambda a: a.reshape(num_rows, width, *a.shape[1:]), out)
  # What the output head reads; it vanishes where no term reads it.
  hidden = layers_lib.rms_norm(hidden, params['final_norm'], c.norm_eps)
  return types.PolicyOutput(hidden=hidden, **out)


def _query_ids(rows, num_tokens):
  ids = rows.query_ids if isinstance(rows, types.Batch) else None
  return None if ids is None else ids.reshape(num_tokens, -1)


def _cast(params, dtype):
  """Floating weights in the compute dtype; norms too, their statistics stay f32."""
  return jax.tree.map(lambda w: w.astype(dtype), params)
