"""What every block is made of, and whole sequences through all of them."""

from typing import Any

import jax
import jax.numpy as jnp

from kernels import dual_attention as dual_kernel
from rlvr.policy import config as config_lib

Array = jax.Array


def dense(x: Array, w: Array) -> Array:
  """x [..., in] @ w [in, out], sums in f32, result in x's dtype."""
  out = jax.lax.dot_general(
      x, w, (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
  return out.astype(x.dtype)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
  """x / sqrt(mean(x^2) + eps) * weight over the last axis, statistics in f32."""
  x32 = x.astype(jnp.float32)
  scale = jax.lax.rsqrt(jnp.mean(jnp.square(x32), axis=-1, keepdims=True) + eps)
  weight = weight.astype(jnp.float32).reshape((1,) * (x.ndim - 1) + weight.shape)
  return (x32 * scale * weight).astype(x.dtype)


def rotary_frequencies(config: config_lib.ModelConfig) -> Array:
  """f32[hd / 2], radians per position of each rotated pair.

  f_i = theta^(-2 i / hd), stretched as `config.rope_scaling` says: 'linear'
  divides all by the factor; 'llama3' divides those of long wavelength, with a
  ramp between two cut-offs; 'yarn' blends by how often a pair turns within the
  original context (Peng et al., arXiv 2309.00071, section 3.2).
  """
  half = config.head_dim // 2
  exponent = jnp.arange(half, dtype=jnp.float32) / half
  freq = config.rope_theta ** -exponent
  scaling = config.rope_scaling
  if scaling is None:
    return freq
  if scaling.kind == 'linear':
    return freq / scaling.factor
  if scaling.kind == 'llama3':
    # keep = 1 for short wavelengths, 0 for long ones.
    turns = scaling.original_max_positions * freq / (2 * jnp.pi)
    keep = (turns - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor)
    keep = jnp.clip(keep, 0.0, 1.0)
    return freq * keep + freq / scaling.factor * (1.0 - keep)
  if scaling.kind == 'yarn':
    low = _yarn_index(config, scaling.beta_fast, jnp.floor)
    high = _yarn_index(config, scaling.beta_slow, jnp.ceil)
    low, high = jnp.maximum(low, 0), jnp.minimum(high, config.head_dim - 1)
    ramp = (jnp.arange(half) - low) / jnp.maximum(high - low, 1e-3)
    keep = 1.0 - jnp.clip(ramp, 0.0, 1.0)
    return freq * keep + freq / scaling.factor * (1.0 - keep)
  raise ValueError(
      f'rope_scaling.kind is {scaling.kind!r}; supported: linear, llama3, yarn.')


def _yarn_index(config, num_turns, rounding):
  """The pair that turns `num_turns` times within the original context."""
  positions = config.rope_scaling.original_max_positions
  ratio = positions / (num_turns * 2 * jnp.pi)
  return rounding(config.head_dim * jnp.log(ratio) / (2 * jnp.log(config.rope_theta)))


def rotary_tables(config: config_lib.ModelConfig, positions: Array) -> tuple[Array, Array]:
  """cos and sin, f32[..., hd / 2], of integer `positions` [...]."""
  freq = rotary_frequencies(config)
  angle = positions.astype(jnp.float32)[..., None] * freq.reshape((1,) * positions.ndim + (-1,))
  gain = 1.0
  if config.rope_scaling is not None and config.rope_scaling.kind == 'yarn':
    gain = config.rope_scaling.attention_factor
  return jnp.cos(angle) * gain, jnp.sin(angle) * gain


def rotate(x: Array, cos: Array, sin: Array) -> Array:
  """Rotates pairs (x_i, x_{i + hd/2}) of x [..., H, hd] by the tables [..., hd / 2]."""
  cos, sin = cos[..., None, :], sin[..., None, :]
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  rotated = [first * cos - second * sin, second * cos + first * sin]
  return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def qkv(config, layer, x, cos, sin, matmul) -> tuple[Array, Array, Array]:
  """Rotated queries [..., Hq, hd], keys and values [..., Hkv, hd] of normed x [..., D]."""
  out = matmul(rms_norm(x, layer['attn_norm'], config.norm_eps), layer['qkv'])
  if config.qkv_bias:
    out = out + layer['qkv_bias'].reshape((1,) * (out.ndim - 1) + (-1,))
  heads = out.reshape(*out.shape[:-1], -1, config.head_dim)
  q, k, v = jnp.split(
      heads, [config.num_heads, config.num_heads + config.num_kv_heads], axis=-2)
  if config.qk_norm:
    q = rms_norm(q, layer['q_norm'], config.norm_eps)
    k = rms_norm(k, layer['k_norm'], config.norm_eps)
  return rotate(q, cos, sin), rotate(k, cos, sin), v


def after_attention(config, layer, x, attended, matmul) -> Array:
  """The rest of a block: output projection and gated MLP, both with residuals."""
  x = x + matmul(attended.reshape(*attended.shape[:-2], -1), layer['o'])
  hidden = matmul(rms_norm(x, layer['mlp_norm'], config.norm_eps), layer['gate_up'])
  gate, up = jnp.split(hidden, 2, axis=-1)
  return x + matmul(jax.nn.silu(gate) * up, layer['down'])


def head_logits(params: Any, config: config_lib.ModelConfig, hidden: Array) -> Array:
  """f32[..., V] from the final hidden state [..., D], before the last norm."""
  hidden = rms_norm(hidden, params['final_norm'], config.norm_eps)
  w, axis = (params['embed'], 1) if config.tie_embeddings else (params['head'], 0)
  return jax.lax.dot_general(
      hidden, w, (((hidden.ndim - 1,), (axis,)), ((), ())), preferred_element_type=jnp.float32)


def prompt_pass(params, config, tokens, *, matmul):
  """Hidden states [P, L, D] and K/V [N, P, L, Hkv, hd] of whole sequences."""
  cos, sin = rotary_tables(config, jnp.arange(tokens.shape[1])[None])

  def block(x, layer):
    q, k, v = qkv(config, layer, x, cos, sin, matmul)
    attended = dual_kernel.causal_attention(q, k, v)
    return after_attention(config, layer, x, attended, matmul), (k, v)

  x, (k, v) = jax.lax.scan(block, params['embed'][tokens], params['layers'])
  return x, k, v
