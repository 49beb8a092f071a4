"""What is exported loads again, bit for bit, and appears whole or not at all."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from rlvr.host import checkpoint_layout
from rlvr.host import export as export_lib
from rlvr.host import load_weights
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.policy import config as config_lib

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'
TINY = ('tiny_llama3', 'tiny_qwen2', 'tiny_qwen3', 'tiny_yarn')


def export(path, model, **options):
  return export_lib.export(path, model.config, model.params, model.tokenizer, **options)


def assert_same(actual, expected):
  assert actual.config == expected.config
  jax.tree.map(np.testing.assert_array_equal, actual.params, expected.params)
  for field in ('stop_ids', 'bos_id', 'pad_id', 'add_bos', 'chat_template', 'vocab_size'):
    assert getattr(actual.tokenizer, field) == getattr(expected.tokenizer, field)
  text = 'Zoë has 12 <|im_end|>\n'
  assert actual.tokenizer.encode(text) == expected.tokenizer.encode(text)


class TestExport:

  @pytest.mark.parametrize('name', TINY)
  def test_round_trip_is_bit_equal(self, name, tmp_path):
    model = load_weights.load(GOLDEN / name)
    assert export(tmp_path / 'deep' / 'out', model) == tmp_path / 'deep' / 'out'
    assert_same(load_weights.load(tmp_path / 'deep' / 'out'), model)

  def test_shards_and_index(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_llama3')
    export(tmp_path / 'out', model, max_shard_bytes=30_000)
    assert_same(load_weights.load(tmp_path / 'out'), model)
    index = json.loads((tmp_path / 'out' / 'model.safetensors.index.json').read_text())
    files = sorted(path.name for path in (tmp_path / 'out').glob('*.safetensors'))
    assert files == sorted(set(index['weight_map'].values())) and len(files) > 3
    assert index['metadata']['total_size'] == 4 * sum(map(np.size, jax.tree.leaves(model.params)))
    # The embedding alone (304 x 32 x 4 bytes) exceeds the limit, and so has a file to itself.
    embed = index['weight_map']['model.embed_tokens.weight']
    assert list(index['weight_map'].values()).count(embed) == 1
    for file in files:
      tensors = safetensors_numpy.load_file(tmp_path / 'out' / file)
      assert len(tensors) == 1 or sum(v.nbytes for v in tensors.values()) <= 30_000

  def test_bfloat16_rounds_to_nearest(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_llama3')
    export(tmp_path / 'out', model, dtype='bfloat16')
    loaded = load_weights.load(tmp_path / 'out')
    rounded = jax.tree.map(lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32), model.params)
    assert_same(loaded, dataclasses.replace(model, params=rounded))
    config = json.loads((tmp_path / 'out' / 'config.json').read_text())
    assert config['torch_dtype'] == 'bfloat16'

  def test_device_arrays(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_qwen3')
    export(tmp_path / 'out', dataclasses.replace(model, params=jax.tree.map(
        jnp.asarray, model.params)))
    assert_same(load_weights.load(tmp_path / 'out'), model)

  def test_toy_policy_with_bytes(self, tmp_path):
    config = config_lib.ModelConfig(
        family='llama', vocab_size=264, num_layers=1, d_model=8, num_heads=2, num_kv_heads=1,
        head_dim=4, d_ff=12, tie_embeddings=True)
    shapes = checkpoint_layout.param_shapes(config)
    params = jax.tree.map(
        lambda shape: np.full(shape, 0.5, np.float32), shapes,
        is_leaf=lambda x: isinstance(x, tuple))
    model = load_weights.Model(config, params, tokenizer_lib.ByteTokenizer())
    export(tmp_path / 'out', model)
    assert_same(load_weights.load(tmp_path / 'out'), model)

  def test_every_stop_id_is_written(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_llama3')
    export(tmp_path / 'out', model)
    values = json.loads((tmp_path / 'out' / 'generation_config.json').read_text())
    assert values == {'bos_token_id': 256, 'eos_token_id': [257, 259], 'pad_token_id': 257}

  def test_does_not_overwrite_unless_told(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_qwen2')
    (tmp_path / 'empty').mkdir()
    export(tmp_path / 'empty', model)
    (tmp_path / 'empty' / 'mine.txt').write_text('notes')
    with pytest.raises(ValueError, match='exists; name a new folder or say overwrite=True'):
      export(tmp_path / 'empty', model)
    assert (tmp_path / 'empty' / 'mine.txt').exists()
    export(tmp_path / 'empty', model, overwrite=True)
    assert not (tmp_path / 'empty' / 'mine.txt').exists()
    assert [path.name for path in tmp_path.iterdir()] == ['empty']

  def test_failure_leaves_nothing(self, tmp_path, monkeypatch):
    model = load_weights.load(GOLDEN / 'tiny_qwen2')
    export(tmp_path / 'out', model)
    before = sorted(path.name for path in (tmp_path / 'out').iterdir())

    def full_disk(*args, **kwargs):
      raise OSError('No space left on device')

    monkeypatch.setattr(export_lib.safetensors_numpy, 'save_file', full_disk)
    for name, overwrite in (('new', False), ('out', True)):
      with pytest.raises(OSError, match='No space'):
        export(tmp_path / name, model, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ['out']
    assert sorted(path.name for path in (tmp_path / 'out').iterdir()) == before

  def test_refusals_write_nothing(self, tmp_path):
    model = load_weights.load(GOLDEN / 'tiny_llama3')
    spare = dataclasses.replace(model, params=model.params | {'lora': np.zeros(3)})
    wide = dataclasses.replace(model, params=model.params | {'final_norm': np.zeros(31)})
    small = dataclasses.replace(model, config=dataclasses.replace(model.config, qk_norm=True))
    for broken, options, message in (
        (model, {'dtype': 'float16'}, "dtype='float16' is not supported"),
        (model, {'max_shard_bytes': 0}, 'max_shard_bytes=0 must be positive'),
        (spare, {}, r"params\['lora'\] has shape \(3,\), the config says \(absent\)"),
        (wide, {}, r"params\['final_norm'\] has shape \(31,\), the config says \(32,\)"),
        (small, {}, r"\['k_norm'\] has shape \(absent\)")):
      with pytest.raises(ValueError, match=message):
        export(tmp_path / 'out', broken, **options)
    assert not list(tmp_path.iterdir())
