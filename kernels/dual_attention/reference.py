"""Shared-prompt attention in plain jnp: the definition, and what CPUs run.

Two key regions, the prompt's and the response's own, share one softmax: scores
of both are formed apart, so no key is copied next to another. Queries of the
heads that share a key head are folded into rows, which makes every product one
batched matmul.
"""

import jax
import jax.numpy as jnp

_NEG = -1e30  # not -inf: a row that sees nothing must not form inf - inf


def causal_attention(q_PxLxHxD, k_PxLxKxD, v_PxLxKxD):
  """See kernels.dual_attention.api.causal_attention."""
  length = q_PxLxHxD.shape[1]
  q, k, v = _fold(q_PxLxHxD, k_PxLxKxD), _heads(k_PxLxKxD), _heads(v_PxLxKxD)
  scores = _scores(q, k) + _causal_bias(length)
  weights = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
  weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
  return _unfold(_mix(weights, v), q_PxLxHxD)


def dual_attention(q_NxTxHxD, k_ctx_PxLxKxD, v_ctx_PxLxKxD, k_NxTxKxD, v_NxTxKxD, prompt,
                   prompt_length):
  """See kernels.dual_attention.api.dual_attention."""
  width, ctx_width = q_NxTxHxD.shape[1], k_ctx_PxLxKxD.shape[1]
  q = _fold(q_NxTxHxD, k_NxTxKxD)
  k_ctx, v_ctx = _heads(k_ctx_PxLxKxD)[prompt], _heads(v_ctx_PxLxKxD)[prompt]
  seen = jnp.arange(ctx_width)[None] < prompt_length[prompt][:, None]
  ctx_scores = _scores(q, k_ctx) + jnp.where(seen, 0.0, _NEG)[:, None, None, None, :]
  own_scores = _scores(q, _heads(k_NxTxKxD)) + _causal_bias(width)
  top = jnp.maximum(jnp.max(ctx_scores, axis=-1, keepdims=True),
                    jnp.max(own_scores, axis=-1, keepdims=True))
  top = jax.lax.stop_gradient(top)
  ctx_weights, own_weights = jnp.exp(ctx_scores - top), jnp.exp(own_scores - top)
  total = (jnp.sum(ctx_weights, axis=-1, keepdims=True)
           + jnp.sum(own_weights, axis=-1, keepdims=True))
  # Normalised before the product, so that in low precision the weights are <= 1.
  out = _mix(ctx_weights / total, v_ctx) + _mix(own_weights / total, _heads(v_NxTxKxD))
  return _unfold(out, q_NxTxHxD)


def _fold(q, k):
  """[N, T, Hq, d] -> [N, Hk, Hq / Hk, T, d]."""
  num_rows, width, num_heads, head_dim = q.shape
  num_kv_heads = k.shape[2]
  q = q.reshape(num_rows, width, num_kv_heads, num_heads // num_kv_heads, head_dim)
  return jnp.transpose(q, (0, 2, 3, 1, 4))


def _unfold(out, like):
  """[N, Hk, Hq / Hk, T, d] -> [N, T, Hq, d]."""
  return jnp.transpose(out, (0, 3, 1, 2, 4)).reshape(like.shape).astype(like.dtype)


def _heads(k):
  return jnp.transpose(k, (0, 2, 1, 3))  # [N, Hk, T, d]


def _scores(q, k):
  num_rows, num_kv_heads, fold, width, head_dim = q.shape
  flat = q.reshape(num_rows, num_kv_heads, fold * width, head_dim)
  scores = jnp.einsum('nkqd,nksd->nkqs', flat, k, preferred_element_type=jnp.float32)
  scale = jnp.float32(head_dim ** -0.5)
  return scores.reshape(num_rows, num_kv_heads, fold, width, k.shape[2]) * scale


def _mix(weights, v):
  num_rows, num_kv_heads, fold, width, span = weights.shape
  flat = weights.reshape(num_rows, num_kv_heads, fold * width, span).astype(v.dtype)
  out = jnp.einsum('nkqs,nksd->nkqd', flat, v, preferred_element_type=jnp.float32)
  return out.reshape(num_rows, num_kv_heads, fold, width, v.shape[3])


def _causal_bias(width):
  seen = jnp.arange(width)[:, None] >= jnp.arange(width)[None, :]
  return jnp.where(seen, 0.0, _NEG)[None, None, None]
