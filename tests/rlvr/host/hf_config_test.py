"""What config.json may say: read, written back, or refused by name."""

import json
import math
import pathlib

import pytest

from rlvr.host import hf_config
from rlvr.policy import config as config_lib

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'


def values_of(family='llama', **changes):
  values = {
      'model_type': family, 'vocab_size': 100, 'hidden_size': 32, 'num_hidden_layers': 2,
      'num_attention_heads': 4, 'intermediate_size': 48} | changes
  return {key: value for key, value in values.items() if value != 'absent'}


class TestFromJson:

  def test_defaults_of_each_family(self):
    llama = hf_config.from_json(values_of(), 'config.json')
    assert llama == config_lib.ModelConfig(
        family='llama', vocab_size=100, num_layers=2, d_model=32, num_heads=4, num_kv_heads=4,
        head_dim=8, d_ff=48, rope_theta=10_000.0, norm_eps=1e-6, max_positions=2048)
    qwen2 = hf_config.from_json(values_of('qwen2', num_key_value_heads=2), 'config.json')
    assert (qwen2.qkv_bias, qwen2.qk_norm, qwen2.num_kv_heads) == (True, False, 2)
    qwen3 = hf_config.from_json(values_of('qwen3'), 'config.json')
    assert (qwen3.qkv_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 128)

  def test_old_and_new_spelling_of_rope(self):
    scaling = {'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
               'original_max_position_embeddings': 64}
    old = values_of(rope_theta=5e5, rope_scaling={'type': 'llama3', **scaling})
    new = values_of(rope_parameters={'rope_type': 'llama3', 'rope_theta': 5e5, **scaling})
    config = hf_config.from_json(old, 'config.json')
    assert config == hf_config.from_json(new, 'config.json')
    assert config.rope_theta == 5e5
    assert config.rope_scaling == config_lib.RopeScaling(
        'llama3', 8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=64)

  def test_window_that_is_stated_but_off_is_fine(self):
    hf_config.from_json(
        values_of('qwen2', use_sliding_window=False, sliding_window=4096,
                  layer_types=['full_attention'] * 2), 'config.json')

  @pytest.mark.parametrize('family, key, value', [
      ('mistral', 'model_type', 'mistral'),
      ('qwen2_moe', 'model_type', 'qwen2_moe'),
      ('llama', 'architectures', ['LlamaForSequenceClassification']),
      ('llama', 'hidden_act', 'gelu'),
      ('llama', 'attention_bias', True),
      ('qwen3', 'attention_bias', True),
      ('llama', 'mlp_bias', True),
      ('llama', 'sliding_window', 4096),
      ('qwen2', 'use_sliding_window', True),
      ('qwen3', 'partial_rotary_factor', 0.5),
      ('llama', 'num_local_experts', 8),
      ('llama', 'quantization_config', {'quant_method': 'fp8'}),
      ('llama', 'auto_map', {'AutoModelForCausalLM': 'modeling.Other'}),
      ('llama', 'final_logit_softcapping', 30.0),
      ('llama', 'is_causal', False),
      ('llama', 'vocab_size', 'absent'),
      ('llama', 'hidden_size', 0),
  ])
  def test_refusals_name_key_and_file(self, family, key, value):
    values = values_of(family, **{key: value})
    with pytest.raises(ValueError, match=rf'^config\.json: {key}='):
      hf_config.from_json(values, 'config.json')

  def test_sliding_layers(self):
    with pytest.raises(ValueError, match="layer_types has 'sliding_attention'"):
      hf_config.from_json(
          values_of('qwen3', layer_types=['full_attention', 'sliding_attention']), 'config.json')

  def test_heads_that_do_not_divide(self):
    with pytest.raises(ValueError, match=r'^config\.json: num_kv_heads=3 must divide'):
      hf_config.from_json(values_of(num_key_value_heads=3), 'config.json')


class TestRopeScaling:

  def test_default(self):
    assert hf_config.rope_scaling({}, 64, 'x') is None
    assert hf_config.rope_scaling({'rope_type': 'default', 'rope_theta': 1.0}, 64, 'x') is None

  def test_linear(self):
    assert hf_config.rope_scaling({'type': 'linear', 'factor': 2}, 64, 'x') == (
        config_lib.RopeScaling('linear', 2.0))

  def test_yarn_resolves_its_numbers(self):
    scaling = hf_config.rope_scaling({'rope_type': 'yarn', 'factor': 4.0}, 64, 'x')
    assert scaling.original_max_positions == 64
    assert (scaling.beta_fast, scaling.beta_slow) == (32.0, 1.0)
    assert scaling.attention_factor == pytest.approx(0.1 * math.log(4) + 1)

  def test_yarn_with_mscale(self):
    rope = {'rope_type': 'yarn', 'factor': math.e ** 10, 'mscale': 1.0, 'mscale_all_dim': 0.5}
    assert hf_config.rope_scaling(rope, 64, 'x').attention_factor == pytest.approx(2 / 1.5)
    rope['attention_factor'] = 1.25
    assert hf_config.rope_scaling(rope, 64, 'x').attention_factor == 1.25

  @pytest.mark.parametrize('rope, message', [
      ({'rope_type': 'dynamic', 'factor': 2.0}, "rope_type='dynamic' is not supported"),
      ({'type': 'mrope'}, "rope_type='mrope' is not supported"),
      ({'rope_type': 'longrope', 'factor': 2.0}, "rope_type='longrope' is not supported"),
      ({'rope_type': 'linear'}, 'factor=None must be a number'),
      ({'rope_type': 'llama3', 'factor': 8.0}, 'low_freq_factor=None must be a number'),
      ({'rope_type': 'yarn', 'factor': 4.0, 'truncate': False}, 'truncate=False'),
      ({'rope_theta': 1e4, 'partial_rotary_factor': 0.5}, 'partial_rotary_factor must be 1'),
  ])
  def test_refusals(self, rope, message):
    with pytest.raises(ValueError, match=message):
      hf_config.rope_scaling(rope, 64, 'x')


class TestToJson:

  @pytest.mark.parametrize('name', ['tiny_llama3', 'tiny_qwen2', 'tiny_qwen3', 'tiny_yarn'])
  def test_round_trip(self, name):
    values = json.loads((GOLDEN / name / 'config.json').read_text())
    config = hf_config.from_json(values, name)
    assert hf_config.from_json(hf_config.to_json(config), name) == config

  def test_unknown_combination(self):
    config = config_lib.ModelConfig(
        family='llama', vocab_size=8, num_layers=1, d_model=4, num_heads=1, num_kv_heads=1,
        head_dim=4, d_ff=4, qkv_bias=True)
    with pytest.raises(ValueError, match="family='llama' with qkv_bias=True"):
      hf_config.to_json(config)
