"""Folders with whole, sharded, narrow, truncated and missing weights."""

import json
import pathlib
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from rlvr.host import hf_weights

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'


@pytest.fixture
def folder(tmp_path):
  return shutil.copytree(GOLDEN / 'tiny_llama3', tmp_path / 'model')


@pytest.fixture
def sharded(tmp_path):
  return shutil.copytree(GOLDEN / 'tiny_qwen2', tmp_path / 'model')


class TestLoad:

  def test_narrow_weights_are_widened_exactly(self):
    for name, dtype in (('tiny_qwen3', ml_dtypes.bfloat16), ('tiny_yarn', np.float16)):
      stored = safetensors_numpy.load_file(GOLDEN / name / 'model.safetensors')
      _, params = hf_weights.load(GOLDEN / name)
      assert stored['model.embed_tokens.weight'].dtype == dtype
      np.testing.assert_array_equal(
          params['embed'], stored['model.embed_tokens.weight'].astype(np.float32))
      assert params['embed'].dtype == np.float32

  def test_shards(self, sharded):
    assert len(list(sharded.glob('*.safetensors'))) == 3
    _, params = hf_weights.load(sharded)
    stored = {}
    for file in sharded.glob('*.safetensors'):
      stored |= safetensors_numpy.load_file(file)
    np.testing.assert_array_equal(
        params['layers']['down'][1], stored['model.layers.1.mlp.down_proj.weight'].T)

  def test_truncated_file(self, folder):
    file = folder / 'model.safetensors'
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r'model\.safetensors is truncated or not a safetensors'):
      hf_weights.load(folder)
    file.write_bytes(b'')
    with pytest.raises(ValueError, match=r'model\.safetensors is truncated or not a safetensors'):
      hf_weights.load(folder)

  def test_missing_files(self, folder):
    (folder / 'model.safetensors').unlink()
    with pytest.raises(ValueError, match='holds neither model.safetensors nor'):
      hf_weights.load(folder)
    (folder / 'config.json').unlink()
    with pytest.raises(ValueError, match=r'config\.json is missing'):
      hf_weights.load(folder)

  def test_missing_shard_and_bad_index(self, sharded):
    file = next(iter(sharded.glob('*-00002-of-*.safetensors')))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(ValueError, match='00002-of-00003.safetensors is missing; model.safe'):
      hf_weights.load(sharded)
    file.write_bytes(content)
    (sharded / 'model.safetensors.index.json').write_text('{}')
    with pytest.raises(ValueError, match='weight_map must name the shard'):
      hf_weights.load(sharded)

  def rewrite(self, folder, change):
    file = folder / 'model.safetensors'
    tensors = safetensors_numpy.load_file(file)
    change(tensors)
    safetensors_numpy.save_file(tensors, file)

  def test_missing_tensor_and_wrong_shape(self, folder):
    self.rewrite(folder, lambda tensors: tensors.pop('model.norm.weight'))
    with pytest.raises(ValueError, match='tensor model.norm.weight is missing'):
      hf_weights.load(folder)
    self.rewrite(folder, lambda t: t.update({'model.norm.weight': np.ones(31, np.float32)}))
    with pytest.raises(ValueError, match=r'has shape \[31\], its config says \[32\]'):
      hf_weights.load(folder)

  def test_integer_weights(self, folder):
    self.rewrite(folder, lambda t: t.update({'model.norm.weight': np.ones(32, np.int8)}))
    with pytest.raises(ValueError, match='model.norm.weight is I8; it must be one of F32, F16'):
      hf_weights.load(folder)

  def test_old_rotary_buffers_are_skipped(self, folder):
    name = 'model.layers.0.self_attn.rotary_emb.inv_freq'
    self.rewrite(folder, lambda t: t.update({name: np.ones(4, np.float32)}))
    hf_weights.load(folder)

  def test_more_layers_in_the_file_than_in_the_config(self, folder):
    values = json.loads((folder / 'config.json').read_text())
    (folder / 'config.json').write_text(json.dumps(values | {'num_hidden_layers': 1}))
    with pytest.raises(ValueError, match='model.layers.1.* has no place in a llama model'):
      hf_weights.load(folder)
