"""config.json <-> ModelConfig.

What the policy does not compute is refused by name: a key that changes the
maths and is ignored gives a model that is quietly another one.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rlvr.policy import config as config_lib

# model_type -> the class in `architectures`, and the defaults that config.json may leave out.
_ARCHITECTURES = {
    'llama': 'LlamaForCausalLM', 'qwen2': 'Qwen2ForCausalLM', 'qwen3': 'Qwen3ForCausalLM'}
_MAX_POSITIONS = {'llama': 2048, 'qwen2': 32768, 'qwen3': 32768}

# Key -> the values under which the policy computes the same as the reference; absent is fine.
_ALLOWED = {
    'hidden_act': ('silu', 'swish'),
    'mlp_bias': (False, None),
    'use_sliding_window': (False, None),
    'partial_rotary_factor': (1.0, None),
    'is_causal': (True, None),
    'use_mrope': (False, None),
    'num_experts': (0, None),
    'num_local_experts': (0, None),
    'n_routed_experts': (0, None),
    'logit_scale': (1.0, None),
    'logits_scaling': (1.0, None),
    'embedding_multiplier': (1.0, None),
    'residual_multiplier': (1.0, None),
    'scale_emb': (1.0, None),
    'use_qk_norm': (False, None),
    'qk_layernorm': (False, None),
} | dict.fromkeys((
    'quantization_config', 'compression_config', 'auto_map', 'attn_logit_softcapping',
    'final_logit_softcapping', 'query_pre_attn_scalar', 'attention_multiplier', 'scale_depth',
    'clip_qkv', 'no_rope_layers', 'no_rope_layer_interval', 'dual_chunk_attention_config',
), (None,))


def from_json(values: Mapping[str, Any], path: Any) -> config_lib.ModelConfig:
  """ModelConfig of a config.json.

  Args:
    values: the file's object.
    path: the file, for messages.

  Returns:
    The config.

  Raises:
    ValueError: another architecture, a missing size, or a setting that changes
      the maths in a way the policy does not compute; names the key and value.
  """
  family = values.get('model_type')
  if not isinstance(family, str) or family not in _ARCHITECTURES:
    raise ValueError(
        f'{path}: model_type={family!r} is not supported; known: {", ".join(_ARCHITECTURES)}.')
  named = values.get('architectures') or [_ARCHITECTURES[family]]
  if named != [_ARCHITECTURES[family]]:
    raise ValueError(
        f'{path}: architectures={named!r} is not supported; it must be '
        f'[{_ARCHITECTURES[family]!r}].')
  allowed = dict(_ALLOWED)
  if family == 'llama':
    allowed['sliding_window'] = (None,)  # the Qwen configs state one even when it is off
  if family != 'qwen2':
    allowed['attention_bias'] = (False, None)  # would put a bias on the output projection too
  for key, right in allowed.items():
    if values.get(key) not in right and key in values:
      raise ValueError(
          f'{path}: {key}={values[key]!r} is not supported; it must be {right[0]!r} or absent.')
  for kind in values.get('layer_types') or ():
    if kind != 'full_attention':
      raise ValueError(f'{path}: layer_types has {kind!r}; only "full_attention" is supported.')

  def size(key):
    if not isinstance(values.get(key), int) or values[key] < 1:
      raise ValueError(f'{path}: {key}={values.get(key)!r} must be a positive integer.')
    return values[key]

  def real(key, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
      raise ValueError(f'{path}: {key}={value!r} must be a number.')
    return float(value)

  heads = size('num_attention_heads')
  head_dim = values.get('head_dim') or (128 if family == 'qwen3' else size('hidden_size') // heads)
  max_positions = values.get('max_position_embeddings') or _MAX_POSITIONS[family]
  # Newer files hold theta and scaling in rope_parameters, older ones in two keys.
  rope = dict(values.get('rope_parameters') or values.get('rope_scaling') or {})
  original = values.get('original_max_position_embeddings')
  if original is not None:
    rope['original_max_position_embeddings'] = original
  try:
    return config_lib.ModelConfig(
        family=family, vocab_size=size('vocab_size'), num_layers=size('num_hidden_layers'),
        d_model=size('hidden_size'), num_heads=heads,
        num_kv_heads=values.get('num_key_value_heads') or heads, head_dim=head_dim,
        d_ff=size('intermediate_size'),
        rope_theta=real(
            'rope_theta', rope.get('rope_theta') or values.get('rope_theta') or 10_000.0),
        rope_scaling=rope_scaling(rope, max_positions, path),
        norm_eps=real('rms_norm_eps', values.get('rms_norm_eps', 1e-6)),
        tie_embeddings=bool(values.get('tie_word_embeddings', False)),
        qkv_bias=family == 'qwen2', qk_norm=family == 'qwen3', max_positions=max_positions)
  except ValueError as error:
    message = str(error)
    raise ValueError(message if message.startswith(str(path)) else f'{path}: {message}') from error


def rope_scaling(
    rope: Mapping[str, Any], max_positions: int, path: Any) -> config_lib.RopeScaling | None:
  """RopeScaling of a `rope_scaling` or `rope_parameters` object.

  Args:
    rope: the object, {} for none.
    max_positions: stands in for a missing original_max_position_embeddings.
    path: the file, for messages.

  Returns:
    None for the default frequencies; else the scaling, all numbers resolved.

  Raises:
    ValueError: a kind we do not compute, or a missing number.
  """
  if rope.get('partial_rotary_factor', 1.0) not in (1.0, None):
    raise ValueError(f'{path}: partial_rotary_factor must be 1, got '
                     f'{rope["partial_rotary_factor"]!r}.')
  kind = rope.get('rope_type') or rope.get('type') or 'default'
  if kind == 'default':
    return None
  if kind not in ('linear', 'llama3', 'yarn'):
    raise ValueError(
        f'{path}: rope_type={kind!r} is not supported; known: default, linear, llama3, yarn.')

  def number(key):
    if not isinstance(rope.get(key), (int, float)):
      raise ValueError(f'{path}: {key}={rope.get(key)!r} must be a number for rope_type={kind!r}.')
    return float(rope[key])

  if kind == 'linear':
    return config_lib.RopeScaling(kind, number('factor'))
  original = int(rope.get('original_max_position_embeddings') or max_positions)
  if kind == 'llama3':
    return config_lib.RopeScaling(
        kind, number('factor'), low_freq_factor=number('low_freq_factor'),
        high_freq_factor=number('high_freq_factor'), original_max_positions=original)
  if not rope.get('truncate', True):
    raise ValueError(f'{path}: truncate=False is not supported for rope_type="yarn".')
  factor = number('factor') if rope.get('factor') is not None else max_positions / original
  attention = rope.get('attention_factor')
  if attention is None:
    attention = yarn_attention(factor)
    if rope.get('mscale') and rope.get('mscale_all_dim'):
      attention = yarn_attention(factor, rope['mscale']) / yarn_attention(
          factor, rope['mscale_all_dim'])
  return config_lib.RopeScaling(
      kind, factor, original_max_positions=original, beta_fast=float(rope.get('beta_fast') or 32),
      beta_slow=float(rope.get('beta_slow') or 1), attention_factor=float(attention))


def yarn_attention(factor: float, scale: float = 1.0) -> float:
  """0.1 scale ln(factor) + 1, YaRN's factor on cos and sin. Source: arXiv 2309.00071, eq. 22."""
  return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def to_json(config: config_lib.ModelConfig) -> dict[str, Any]:
  """The config.json object from which `from_json` makes the same config.

  Raises:
    ValueError: biases or norms that the family does not have.
  """
  fits = {'llama': (False, False), 'qwen2': (True, False), 'qwen3': (False, True)}
  if fits.get(config.family) != (config.qkv_bias, config.qk_norm):
    raise ValueError(
        f'family={config.family!r} with qkv_bias={config.qkv_bias} and qk_norm={config.qk_norm} '
        f'is no known architecture; llama has neither, qwen2 the bias, qwen3 the norm.')
  values = {
      'architectures': [_ARCHITECTURES[config.family]],
      'model_type': config.family,
      'vocab_size': config.vocab_size,
      'num_hidden_layers': config.num_layers,
      'hidden_size': config.d_model,
      'num_attention_heads': config.num_heads,
      'num_key_value_heads': config.num_kv_heads,
      'head_dim': config.head_dim,
      'intermediate_size': config.d_ff,
      'hidden_act': 'silu',
      'rms_norm_eps': config.norm_eps,
      'rope_theta': config.rope_theta,
      'max_position_embeddings': config.max_positions,
      'tie_word_embeddings': config.tie_embeddings,
      'attention_bias': config.qkv_bias,
  }
  if config.family == 'llama':
    values['mlp_bias'] = False
  else:
    values |= {'use_sliding_window': False, 'sliding_window': None}
  if config.rope_scaling is not None:
    values['rope_scaling'] = _rope_json(config.rope_scaling)
  return values


def _rope_json(scaling):
  names = {'kind': 'rope_type', 'original_max_positions': 'original_max_position_embeddings'}
  used = {
      'linear': ('kind', 'factor'),
      'llama3': ('kind', 'factor', 'low_freq_factor', 'high_freq_factor',
                 'original_max_positions'),
      'yarn': ('kind', 'factor', 'original_max_positions', 'beta_fast', 'beta_slow',
               'attention_factor'),
  }[scaling.kind]
  return {names.get(key, key): dataclasses.asdict(scaling)[key] for key in used}
