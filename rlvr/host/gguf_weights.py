"""Weights of a GGUF file: metadata, dequantised tensors, and llama.cpp's q and k order undone."""

import pathlib
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

from rlvr.host import checkpoint_layout
from rlvr.host import hf_config
from rlvr.policy import config as config_lib

_FAMILIES = ('llama', 'qwen2', 'qwen3')

_NAMES = {
    'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm', 'lm_head': 'output',
    'input_layernorm': 'attn_norm', 'post_attention_layernorm': 'ffn_norm',
    'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v',
    'self_attn.o_proj': 'attn_output', 'self_attn.q_norm': 'attn_q_norm',
    'self_attn.k_norm': 'attn_k_norm', 'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up',
    'mlp.down_proj': 'ffn_down'}

# Keys under '<architecture>.' that we read, or that change nothing we compute.
_KNOWN_KEYS = (
    'block_count', 'context_length', 'embedding_length', 'feed_forward_length', 'vocab_size',
    'attention.head_count', 'attention.head_count_kv', 'attention.key_length',
    'attention.value_length', 'attention.layer_norm_rms_epsilon', 'rope.freq_base',
    'rope.dimension_count', 'rope.scaling.type', 'rope.scaling.factor',
    'rope.scaling.original_context_length', 'rope.scaling.finetuned', 'rope.scaling.attn_factor',
    'rope.scaling.yarn_beta_fast', 'rope.scaling.yarn_beta_slow', 'tensor_data_layout')

_FREQS = 'rope_freqs.weight'


def load(
    path: pathlib.Path) -> tuple[config_lib.ModelConfig, dict[str, Any], dict[str, Any]]:
  """Config, f32 parameters and metadata of a GGUF file.

  Tensors are mapped and dequantised one at a time.

  Args:
    path: the file.

  Returns:
    The config, the parameters as `checkpoint_layout.param_shapes` lays them
    out, and the metadata by key.

  Raises:
    ValueError: a truncated file, an unsupported architecture or setting, a
      missing, misshapen or spare tensor; in one sentence that names it.
  """
  reader, fields = _read(path)
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  factors = tensors.pop(_FREQS, None)
  config = _config(
      fields, 'output.weight' in tensors,
      None if factors is None else _dequantised(factors, path).ravel(), path)
  if 'token_embd.weight' in tensors:
    # Not every file states vocab_size; the embedding has the rows.
    rows = int(tensors['token_embd.weight'].shape[-1])
    if rows != config.vocab_size:
      raise ValueError(f'{path}: the embedding has {rows} rows, the metadata says '
                       f'{config.vocab_size} tokens.')

  names = {_gguf_name(name): name for name in checkpoint_layout.pieces(config)}
  by_name = {names.get(name, name): tensor for name, tensor in tensors.items()}
  found = {name: tuple(int(size) for size in tensor.shape[::-1])
           for name, tensor in by_name.items()}
  heads = {'q_proj': config.num_heads, 'k_proj': config.num_kv_heads}

  def read(name):
    value = _dequantised(by_name[name], path)
    projection = name.split('.')[-2]
    if config.family == 'llama' and projection in heads:
      value = _undo_permutation(value, heads[projection])
    return value

  return config, checkpoint_layout.assemble(config, found, read, path), fields


def metadata(path: pathlib.Path) -> dict[str, Any]:
  """The metadata of a GGUF file by key, arrays as lists; no tensor is touched.

  Raises:
    ValueError: a truncated file, or not a GGUF file.
  """
  return _read(path)[1]


def _read(path):
  try:
    reader = gguf.GGUFReader(path)
    return reader, {key: field.contents() for key, field in reader.fields.items()}
  except (ValueError, IndexError, KeyError, OverflowError) as error:
    raise ValueError(f'{path} is truncated or not a GGUF file: {error}.') from error


def _undo_permutation(value, num_heads):
  """Rows of a Llama q or k from llama.cpp's interleaved pairs to rotate-half order."""
  pairs = value.reshape(num_heads, value.shape[0] // num_heads // 2, 2, value.shape[1])
  return pairs.swapaxes(1, 2).reshape(value.shape)


def _dequantised(tensor, path):
  try:
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)
  except NotImplementedError as error:
    raise ValueError(
        f'{path}: tensor {tensor.name} is {tensor.tensor_type.name}, which the gguf package '
        f'cannot dequantise.') from error


def _gguf_name(name):
  stem, kind = name.rsplit('.', 1)
  if not stem.startswith('model.layers.'):
    return f'{_NAMES[stem]}.{kind}'
  _, _, layer, part = stem.split('.', 3)
  return f'blk.{layer}.{_NAMES[part]}.{kind}'


def _config(fields: Mapping[str, Any], has_head: bool, factors: np.ndarray | None, path):
  family = fields.get('general.architecture')
  if family not in _FAMILIES:
    raise ValueError(
        f'{path}: general.architecture={family!r} is not supported; known: '
        f'{", ".join(_FAMILIES)}.')
  if fields.get('split.count', 1) > 1:
    raise ValueError(f'{path} is one of {fields["split.count"]} parts; merge them into one file.')
  own = {key.removeprefix(f'{family}.'): value for key, value in fields.items()
         if key.startswith(f'{family}.')}
  for key, value in own.items():
    if key not in _KNOWN_KEYS:
      raise ValueError(f'{path}: {family}.{key}={value!r} is not supported; it must be absent.')

  def get(key, default=None):
    if key not in own and default is None:
      raise ValueError(f'{path}: the metadata {family}.{key} is missing.')
    value = own.get(key, default)
    if isinstance(value, list):
      raise ValueError(f'{path}: {family}.{key} differs by layer, which is not supported.')
    return value

  heads = get('attention.head_count')
  head_dim = get('attention.key_length', get('embedding_length') // heads)
  for key in ('attention.value_length', 'rope.dimension_count'):
    if get(key, head_dim) != head_dim:
      raise ValueError(f'{path}: {family}.{key}={own[key]} must equal the head size {head_dim}.')
  theta = float(get('rope.freq_base', 10_000.0))
  if factors is None:
    scaling = _rope_scaling(own, get('context_length'), path)
  else:
    scaling = _llama3_scaling(factors, theta, head_dim, path)
  try:
    return config_lib.ModelConfig(
        family=family, vocab_size=len(fields.get('tokenizer.ggml.tokens', ())),
        num_layers=get('block_count'), d_model=get('embedding_length'), num_heads=heads,
        num_kv_heads=get('attention.head_count_kv', heads), head_dim=head_dim,
        d_ff=get('feed_forward_length'), rope_theta=theta, rope_scaling=scaling,
        norm_eps=_decimal(get('attention.layer_norm_rms_epsilon')), tie_embeddings=not has_head,
        qkv_bias=family == 'qwen2', qk_norm=family == 'qwen3',
        max_positions=get('context_length'))
  except ValueError as error:
    raise ValueError(f'{path}: {error}') from error


def _decimal(value):
  """The short number that a stored f32 stands for: 1e-05, not 9.999999747378752e-06."""
  return float(str(np.float32(value)))


def _rope_scaling(own, max_positions, path):
  rope = {
      'rope_type': own.get('rope.scaling.type', 'default').replace('none', 'default'),
      'factor': own.get('rope.scaling.factor'),
      'original_max_position_embeddings': own.get('rope.scaling.original_context_length'),
      'beta_fast': own.get('rope.scaling.yarn_beta_fast'),
      'beta_slow': own.get('rope.scaling.yarn_beta_slow')}
  if rope['rope_type'] == 'yarn' and rope['factor'] is not None:
    # llama.cpp multiplies the stated factor by YaRN's own.
    rope['attention_factor'] = own.get('rope.scaling.attn_factor', 1.0) * (
        hf_config.yarn_attention(rope['factor']))
  return hf_config.rope_scaling(rope, max_positions, path)


def _llama3_scaling(factors, theta, head_dim, path):
  """Llama 3's scaling, which GGUF holds as one divisor a frequency instead of four numbers."""
  wavelength = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
  scaling = config_lib.RopeScaling(
      'llama3', float(factors.max()), low_freq_factor=1.0, high_freq_factor=4.0,
      original_max_positions=8192)
  low, high, length = 1.0, 4.0, scaling.original_max_positions
  smooth = np.clip((length / wavelength - low) / (high - low), 0, 1)
  if not np.allclose(1 / factors, smooth + (1 - smooth) / scaling.factor, rtol=1e-4):
    raise ValueError(
        f'{path}: {_FREQS} is not the scaling of Llama 3.1 to 3.3 (factors 1 and 4 over 8192 '
        f'positions); load the Hugging Face folder of the same model.')
  return scaling
