"""GGUF files written here, from checkpoints whose parameters are known."""

import json
import pathlib

import gguf
import jax
import numpy as np
import pytest

from rlvr.host import checkpoint_layout
from rlvr.host import gguf_weights
from rlvr.host import hf_weights
from rlvr.host import load_weights
from rlvr.policy import config as config_lib

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'


def interleaved(value, num_heads):
  """The order in which llama.cpp's converter stores q and k of a Llama."""
  rows, columns = value.shape
  return value.reshape(num_heads, 2, rows // num_heads // 2, columns).swapaxes(1, 2).reshape(
      rows, columns)


def write(path, name, *, extra=None, drop=(), tensors=None, quantise=None):
  """A GGUF file of a golden checkpoint; `extra` metadata, `drop` and add `tensors`."""
  config, params = hf_weights.load(GOLDEN / name)
  arch = config.family
  writer = gguf.GGUFWriter(path, arch)
  metadata = {
      f'{arch}.block_count': config.num_layers, f'{arch}.context_length': config.max_positions,
      f'{arch}.embedding_length': config.d_model, f'{arch}.feed_forward_length': config.d_ff,
      f'{arch}.attention.head_count': config.num_heads,
      f'{arch}.attention.head_count_kv': config.num_kv_heads,
      f'{arch}.attention.key_length': config.head_dim,
      f'{arch}.attention.layer_norm_rms_epsilon': config.norm_eps,
      f'{arch}.rope.freq_base': config.rope_theta} | (extra or {})
  for key, value in metadata.items():
    add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32,
           list: writer.add_array}[type(value)]
    add(key, value)
  state = json.loads((GOLDEN / name / 'tokenizer.json').read_text())
  vocab = sorted(state['model']['vocab'], key=state['model']['vocab'].get)
  unused = config.vocab_size - len(vocab)
  writer.add_tokenizer_model('gpt2')
  writer.add_tokenizer_pre('qwen2')
  writer.add_token_list(vocab + [f'[PAD{i}]' for i in range(unused)])
  writer.add_token_types([3 if '<|' in token else 1 for token in vocab] + [5] * unused)
  writer.add_token_merges([' '.join(merge) for merge in state['model']['merges']])
  writer.add_eos_token_id(257)
  heads = {'q_proj': config.num_heads, 'k_proj': config.num_kv_heads}
  for tensor, piece in checkpoint_layout.pieces(config).items():
    value = np.ascontiguousarray(checkpoint_layout.tensor_view(params, piece))
    if arch == 'llama' and tensor.split('.')[-2] in heads:
      value = interleaved(value, heads[tensor.split('.')[-2]])
    if gguf_weights._gguf_name(tensor) in drop:
      continue
    if quantise is not None and value.ndim == 2 and value.shape[1] % 32 == 0:
      writer.add_tensor(gguf_weights._gguf_name(tensor), gguf.quants.quantize(value, quantise),
                        raw_dtype=quantise)
    else:
      writer.add_tensor(gguf_weights._gguf_name(tensor), value)
  for tensor, value in (tensors or {}).items():
    writer.add_tensor(tensor, value)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def assert_same(actual, expected, **tolerance):
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
    assert a.dtype == np.float32
    np.testing.assert_allclose(a, b, **(tolerance or {'rtol': 0, 'atol': 0}))


def llama3_factors(theta, head_dim, factor, original):
  """What llama.cpp's converter writes for Llama 3's scaling, frequency by frequency."""
  result = []
  for i in range(0, head_dim, 2):
    wavelength = 2 * np.pi * theta ** (i / head_dim)
    if wavelength < original / 4.0:
      result.append(1.0)
    elif wavelength > original / 1.0:
      result.append(factor)
    else:
      smooth = (original / wavelength - 1.0) / (4.0 - 1.0)
      result.append(1 / ((1 - smooth) / factor + smooth))
  return np.asarray(result, np.float32)


class TestLoad:

  def test_llama_with_rope_factors(self, tmp_path):
    expected_config, expected = hf_weights.load(GOLDEN / 'tiny_llama3')
    factors = llama3_factors(expected_config.rope_theta, 8, 8.0, 8192)
    path = write(tmp_path / 'x.gguf', 'tiny_llama3', tensors={'rope_freqs.weight': factors})
    config, params, _ = gguf_weights.load(path)
    assert_same(params, expected)
    assert config.rope_scaling == config_lib.RopeScaling(
        'llama3', 8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192)
    assert not config.tie_embeddings

  def test_rope_factors_of_another_length(self, tmp_path):
    factors = llama3_factors(500_000.0, 8, 8.0, 2048)
    path = write(tmp_path / 'x.gguf', 'tiny_llama3', tensors={'rope_freqs.weight': factors})
    with pytest.raises(ValueError, match='rope_freqs.weight is not the scaling of Llama 3.1'):
      gguf_weights.load(path)

  @pytest.mark.parametrize('name', ['tiny_qwen2', 'tiny_qwen3'])
  def test_qwen_is_not_permuted(self, tmp_path, name):
    extra = {} if name == 'tiny_qwen2' else {
        'qwen3.rope.scaling.type': 'linear', 'qwen3.rope.scaling.factor': 2.0}
    expected_config, expected = hf_weights.load(GOLDEN / name)
    config, params, _ = gguf_weights.load(write(tmp_path / 'x.gguf', name, extra=extra))
    assert config == expected_config
    assert_same(params, expected)

  def test_yarn(self, tmp_path):
    extra = {'qwen2.rope.scaling.type': 'yarn', 'qwen2.rope.scaling.factor': 4.0,
             'qwen2.rope.scaling.original_context_length': 32}
    expected_config, _ = hf_weights.load(GOLDEN / 'tiny_yarn')
    path = write(tmp_path / 'x.gguf', 'tiny_yarn', extra=extra)
    assert gguf_weights.load(path)[0] == expected_config

  @pytest.mark.parametrize('kind, tolerance', [
      (gguf.GGMLQuantizationType.F16, 1e-3), (gguf.GGMLQuantizationType.BF16, 1e-2),
      (gguf.GGMLQuantizationType.Q8_0, 1e-2), (gguf.GGMLQuantizationType.Q4_1, 0.1)])
  def test_quantised_tensors(self, tmp_path, kind, tolerance):
    _, expected = hf_weights.load(GOLDEN / 'tiny_qwen2')
    path = write(tmp_path / 'x.gguf', 'tiny_qwen2', quantise=kind)
    _, params, _ = gguf_weights.load(path)
    assert_same(params, expected, rtol=0, atol=tolerance)
    assert not np.array_equal(params['layers']['qkv'], expected['layers']['qkv'])

  def test_whole_model(self, tmp_path):
    model = load_weights.load(write(tmp_path / 'x.gguf', 'tiny_qwen2'))
    assert model.tokenizer.vocab_size == 296 and model.config.vocab_size == 304

  def test_truncated_at_any_point(self, tmp_path):
    whole = write(tmp_path / 'x.gguf', 'tiny_qwen2').read_bytes()
    path = tmp_path / 'short.gguf'
    for size in (0, 3, 10, 200, 2000, len(whole) // 2, len(whole) - 4):
      path.write_bytes(whole[:size])
      with pytest.raises(ValueError, match=r'short\.gguf is truncated or not a GGUF file'):
        gguf_weights.load(path)

  @pytest.mark.parametrize('options, message', [
      ({'drop': ['blk.1.ffn_up.weight']}, 'layers.1.mlp.up_proj.weight is missing'),
      ({'tensors': {'blk.0.ffn_up.bias': np.ones(48, np.float32)}},
       'tensor blk.0.ffn_up.bias has no place in a qwen2 model'),
      ({'drop': ['output_norm.weight'], 'tensors': {'output_norm.weight': np.ones(8, np.float32)}},
       r'model.norm.weight has shape \[8\], its config says \[32\]'),
      ({'extra': {'qwen2.expert_count': 4}}, 'qwen2.expert_count=4 is not supported'),
      ({'extra': {'qwen2.attention.sliding_window': 64}}, 'qwen2.attention.sliding_window=64 is'),
      ({'extra': {'qwen2.rope.dimension_count': 4}}, 'dimension_count=4 must equal'),
      ({'extra': {'qwen2.rope.scaling.type': 'longrope'}}, "rope_type='longrope' is not supported"),
      ({'extra': {'split.count': 3}}, 'is one of 3 parts'),
      ({'extra': {'qwen2.feed_forward_length': [48, 24]}}, 'differs by layer'),
  ])
  def test_refusals(self, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
      gguf_weights.load(write(tmp_path / 'x.gguf', 'tiny_qwen2', **options))

  def test_other_architecture(self, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / 'x.gguf', 'mamba')
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="general.architecture='mamba' is not supported"):
      gguf_weights.load(tmp_path / 'x.gguf')
