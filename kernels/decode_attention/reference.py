"""Decode attention in plain jnp: the definition, and what CPUs run."""

import jax.numpy as jnp

_NEG = -1e30  # not -inf: a slot that sees nothing must not form inf - inf


def decode_attention(q_SxHxD, k_ctx_CxLxKxD, v_ctx_CxLxKxD, k_SxTxKxD, v_SxTxKxD, prompt_length,
                     t):
  """See kernels.decode_attention.api.decode_attention."""
  num_slots, num_heads, head_dim = q_SxHxD.shape
  num_blocks, ctx_width, num_kv_heads, _ = k_ctx_CxLxKxD.shape
  fold, width = num_heads // num_kv_heads, k_SxTxKxD.shape[1]
  q = q_SxHxD.reshape(num_slots, num_kv_heads, fold, head_dim)
  scale = jnp.float32(head_dim ** -0.5)

  # Prompt region: one product a block and key head, over all its slots at once.
  q_ctx = q.reshape(num_blocks, num_slots // num_blocks, num_kv_heads, fold, head_dim)
  ctx = jnp.einsum('cnkgd,clkd->cnkgl', q_ctx, k_ctx_CxLxKxD, preferred_element_type=jnp.float32)
  seen = jnp.arange(ctx_width)[None] < prompt_length[:, None]
  ctx = jnp.where(seen[:, None, None, None, :], ctx * scale, _NEG)
  ctx = ctx.reshape(num_slots, num_kv_heads, fold, ctx_width)

  own = jnp.einsum('skgd,stkd->skgt', q, k_SxTxKxD, preferred_element_type=jnp.float32)
  seen = jnp.arange(width)[None] <= t[:, None]
  own = jnp.where(seen[:, None, None, :], own * scale, _NEG)

  top = jnp.maximum(jnp.max(ctx, axis=-1, keepdims=True), jnp.max(own, axis=-1, keepdims=True))
  ctx, own = jnp.exp(ctx - top), jnp.exp(own - top)
  total = jnp.sum(ctx, axis=-1, keepdims=True) + jnp.sum(own, axis=-1, keepdims=True)
  ctx, own = (ctx / total).astype(v_SxTxKxD.dtype), (own / total).astype(v_SxTxKxD.dtype)
  ctx = ctx.reshape(num_blocks, num_slots // num_blocks, num_kv_heads, fold, ctx_width)
  out = jnp.einsum('cnkgl,clkd->cnkgd', ctx, v_ctx_CxLxKxD, preferred_element_type=jnp.float32)
  out = out.reshape(num_slots, num_kv_heads, fold, head_dim)
  out += jnp.einsum('skgt,stkd->skgd', own, v_SxTxKxD, preferred_element_type=jnp.float32)
  return out.reshape(num_slots, num_heads, head_dim).astype(q_SxHxD.dtype)
