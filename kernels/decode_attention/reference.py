"""Decode attention in plain jnp: the definition, and what CPUs run."""

import jax.numpy as jnp

_NEG = -1e30  # not -inf: a slot that sees nothing must not form inf - inf


def decode_attention(q_SxHxD, k_ctx_CxKxLxD, v_ctx_CxKxLxD, k_SxKxTxD, v_SxKxTxD, prompt_length,
                     t):
  """See kernels.decode_attention.api.decode_attention."""
  num_slots, num_heads, head_dim = q_SxHxD.shape
  num_blocks, num_kv_heads, ctx_width, _ = k_ctx_CxKxLxD.shape
  fold, width = num_heads // num_kv_heads, k_SxKxTxD.shape[2]
  per_block = num_slots // num_blocks
  q = q_SxHxD.reshape(num_slots, num_kv_heads, fold, head_dim)
  scale = jnp.float32(head_dim ** -0.5)

  def by_block(x):
    """[S, K, fold, X] -> [C, K, S / C * fold, X]: one product a block and key head."""
    x = x.reshape(num_blocks, per_block, num_kv_heads, fold, x.shape[-1])
    return jnp.swapaxes(x, 1, 2).reshape(num_blocks, num_kv_heads, per_block * fold, x.shape[-1])

  def by_slot(x):
    """The inverse of by_block."""
    x = x.reshape(num_blocks, num_kv_heads, per_block, fold, x.shape[-1])
    return jnp.swapaxes(x, 1, 2).reshape(num_slots, num_kv_heads, fold, x.shape[-1])

  dot = lambda spec, *xs: jnp.einsum(spec, *xs, preferred_element_type=jnp.float32)
  ctx = dot('ckqd,ckld->ckql', by_block(q), k_ctx_CxKxLxD) * scale
  seen = jnp.arange(ctx_width)[None] < prompt_length[:, None]
  ctx = jnp.where(seen[:, None, None], ctx, _NEG)
  own = dot('skgd,sktd->skgt', q, k_SxKxTxD) * scale
  seen = jnp.arange(width)[None] <= t[:, None]
  own = jnp.where(seen[:, None, None], own, _NEG)

  top = jnp.maximum(by_slot(jnp.max(ctx, axis=-1, keepdims=True)),
                    jnp.max(own, axis=-1, keepdims=True))
  ctx, own = jnp.exp(ctx - by_block(top)), jnp.exp(own - top)
  total = by_slot(jnp.sum(ctx, axis=-1, keepdims=True)) + jnp.sum(own, axis=-1, keepdims=True)
  # Normalised before the products, so that in low precision the weights are <= 1.
  dtype = v_SxKxTxD.dtype
  out = by_slot(dot('ckql,ckld->ckqd', (ctx / by_block(total)).astype(dtype), v_ctx_CxKxLxD))
  out += dot('skgt,sktd->skgd', (own / total).astype(dtype), v_SxKxTxD)
  return out.reshape(num_slots, num_heads, head_dim).astype(q_SxHxD.dtype)
