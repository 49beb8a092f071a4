"""The shape of a decoder: what a checkpoint says, and all that the policy needs to know.

Plain frozen dataclasses (hashable, so they are static under jit), no jax import.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class RopeScaling:
  """How rotary frequencies are stretched beyond the training length.

  Attributes:
    kind: 'linear' (every frequency divided by `factor`), 'llama3' (only the low
      ones, with a ramp between the two cut-offs) or 'yarn' (a ramp over
      dimensions, and cos/sin scaled by `attention_factor`).
    factor: the stretch, at least 1.
    low_freq_factor: llama3: wavelengths above original_max_positions / this are
      divided by `factor`.
    high_freq_factor: llama3: wavelengths below original_max_positions / this
      are left alone.
    original_max_positions: the training length before stretching (0 for linear).
    beta_fast: yarn: dimensions with more rotations than this are left alone.
    beta_slow: yarn: dimensions with fewer rotations are divided by `factor`.
    attention_factor: yarn: multiplies cos and sin; always the resolved number
      (the loader fills in 0.1 ln(factor) + 1 where the file is silent).
  """
  kind: str
  factor: float
  low_freq_factor: float = 1.0
  high_freq_factor: float = 4.0
  original_max_positions: int = 0
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  attention_factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """Sizes and variants of a Llama-like decoder.

  Attributes:
    family: 'llama', 'qwen2' or 'qwen3'; names the model on export, nothing else.
    vocab_size: rows of the embedding (may exceed the tokenizer's vocabulary).
    num_layers: blocks, N.
    d_model: residual width, D.
    num_heads: query heads, Hq.
    num_kv_heads: key and value heads, Hkv; divides `num_heads`.
    head_dim: width of a head, hd; not always d_model / num_heads.
    d_ff: width of the gated MLP, F.
    rope_theta: base of the rotary frequencies.
    rope_scaling: None, or how the frequencies are stretched.
    norm_eps: epsilon inside the RMS norms.
    tie_embeddings: the head is the transposed embedding.
    qkv_bias: q, k and v have biases (Qwen2).
    qk_norm: q and k are RMS-normed per head before RoPE (Qwen3).
    max_positions: the longest sequence the checkpoint was made for.
  """
  family: str
  vocab_size: int
  num_layers: int
  d_model: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  d_ff: int
  rope_theta: float = 10_000.0
  rope_scaling: RopeScaling | None = None
  norm_eps: float = 1e-5
  tie_embeddings: bool = False
  qkv_bias: bool = False
  qk_norm: bool = False
  max_positions: int = 2048

  def __post_init__(self):
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
          f'num_kv_heads={self.num_kv_heads} must divide num_heads={self.num_heads}.')
    if self.head_dim % 2:
      raise ValueError(f'head_dim={self.head_dim} must be even for rotary positions.')
