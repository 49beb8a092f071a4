"""The table between checkpoints' tensors and the policy's stacked parameters."""

import numpy as np
import pytest

from rlvr.host import checkpoint_layout
from rlvr.policy import config as config_lib

CONFIG = config_lib.ModelConfig(
    family='qwen2', vocab_size=7, num_layers=2, d_model=6, num_heads=2, num_kv_heads=1,
    head_dim=4, d_ff=5, qkv_bias=True)


def make_tensors(config=CONFIG):
  rng = np.random.default_rng(0)
  return {name: rng.standard_normal(shape).astype(np.float32)
          for name, shape in checkpoint_layout.tensor_shapes(config).items()}


def assemble(tensors, config=CONFIG):
  found = {name: value.shape for name, value in tensors.items()}
  return checkpoint_layout.assemble(config, found, tensors.__getitem__, 'model')


class TestTensorShapes:

  def test_names_and_orientation(self):
    shapes = checkpoint_layout.tensor_shapes(CONFIG)
    assert len(shapes) == 2 * 12 + 3
    assert shapes['model.embed_tokens.weight'] == (7, 6)
    assert shapes['lm_head.weight'] == (7, 6)
    assert shapes['model.layers.1.self_attn.q_proj.weight'] == (8, 6)
    assert shapes['model.layers.1.self_attn.k_proj.bias'] == (4,)
    assert shapes['model.layers.0.self_attn.o_proj.weight'] == (6, 8)
    assert shapes['model.layers.0.mlp.down_proj.weight'] == (6, 5)


class TestAssemble:

  def test_joins_and_transposes(self):
    tensors = make_tensors()
    params = assemble(tensors)
    at = 'model.layers.1.'
    x = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    joined = np.concatenate(
        [tensors[at + f'self_attn.{name}_proj.weight'] @ x for name in 'qkv'])
    np.testing.assert_allclose(x @ params['layers']['qkv'][1], joined, rtol=1e-5)
    np.testing.assert_array_equal(
        params['layers']['qkv_bias'][1],
        np.concatenate([tensors[at + f'self_attn.{name}_proj.bias'] for name in 'qkv']))
    np.testing.assert_array_equal(
        params['layers']['gate_up'][1],
        np.concatenate([tensors[at + 'mlp.gate_proj.weight'],
                        tensors[at + 'mlp.up_proj.weight']]).T)
    np.testing.assert_array_equal(params['head'], tensors['lm_head.weight'].T)

  def test_pieces_cover_every_parameter_once(self):
    params = assemble({name: np.ones_like(value) for name, value in make_tensors().items()})
    total = sum(value.size for value in make_tensors().values())
    leaves = [*params.pop('layers').values(), *params.values()]
    assert sum(leaf.sum() for leaf in leaves) == total == sum(leaf.size for leaf in leaves)

  def test_missing_shape_and_spare(self):
    tensors = make_tensors()
    name = 'model.layers.1.mlp.up_proj.weight'
    with pytest.raises(ValueError, match=f'model: tensor {name} is missing .1 of 27 are'):
      assemble({key: value for key, value in tensors.items() if key != name})
    with pytest.raises(ValueError, match=rf'{name} has shape \[6, 5\], its config says \[5, 6\]'):
      assemble(tensors | {name: tensors[name].T})
    with pytest.raises(ValueError, match='layers.0.mlp.up_proj.bias has no place in a qwen2'):
      assemble(tensors | {'model.layers.0.mlp.up_proj.bias': np.zeros(5)})

  def test_head_beside_a_tied_embedding(self):
    config = config_lib.ModelConfig(**{**vars(CONFIG), 'tie_embeddings': True})
    tensors = make_tensors(config)
    embed = tensors['model.embed_tokens.weight']
    assert 'head' not in assemble(tensors | {'lm_head.weight': embed}, config)
    with pytest.raises(ValueError, match='lm_head.weight has no place'):
      assemble(tensors | {'lm_head.weight': embed + 1}, config)
