"""Which tensor of a Hugging Face checkpoint lies where in the policy's parameters.

One table serves loading and export. The policy stacks layers on axis 0, stores
matrices [in, out] and joins q, k, v and gate, up; checkpoints hold one [out, in]
matrix each.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvr.policy import config as config_lib


@dataclasses.dataclass(frozen=True)
class Piece:
  """Where one tensor goes.

  Attributes:
    leaf: the parameter's name; under 'layers' where `layer` is given.
    layer: index on the leaf's axis 0, or None.
    columns: the part of the leaf's last axis.
    transposed: the tensor is the leaf's part transposed.
  """
  leaf: str
  layer: int | None = None
  columns: slice = dataclasses.field(default_factory=lambda: slice(None))
  transposed: bool = False


def param_shapes(config: config_lib.ModelConfig) -> dict[str, Any]:
  """The shapes of the policy's parameters: the same tree, tuples for arrays."""
  n, d, f = config.num_layers, config.d_model, config.d_ff
  q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
  layers = {
      'attn_norm': (n, d), 'mlp_norm': (n, d), 'qkv': (n, d, q + 2 * kv), 'o': (n, q, d),
      'gate_up': (n, d, 2 * f), 'down': (n, f, d)}
  if config.qkv_bias:
    layers['qkv_bias'] = (n, q + 2 * kv)
  if config.qk_norm:
    layers |= {'q_norm': (n, config.head_dim), 'k_norm': (n, config.head_dim)}
  shapes = {'embed': (config.vocab_size, d), 'final_norm': (d,), 'layers': layers}
  if not config.tie_embeddings:
    shapes['head'] = (d, config.vocab_size)
  return shapes


def pieces(config: config_lib.ModelConfig) -> dict[str, Piece]:
  """Tensor name -> Piece, in the order in which checkpoints are written."""
  q, kv, f = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim, config.d_ff
  parts = {'q': slice(0, q), 'k': slice(q, q + kv), 'v': slice(q + kv, q + 2 * kv)}
  result = {'model.embed_tokens.weight': Piece('embed')}
  for layer in range(config.num_layers):
    at = f'model.layers.{layer}.'
    result[at + 'input_layernorm.weight'] = Piece('attn_norm', layer)
    for name, columns in parts.items():
      result[at + f'self_attn.{name}_proj.weight'] = Piece('qkv', layer, columns, True)
      if config.qkv_bias:
        result[at + f'self_attn.{name}_proj.bias'] = Piece('qkv_bias', layer, columns)
    if config.qk_norm:
      result[at + 'self_attn.q_norm.weight'] = Piece('q_norm', layer)
      result[at + 'self_attn.k_norm.weight'] = Piece('k_norm', layer)
    result[at + 'self_attn.o_proj.weight'] = Piece('o', layer, transposed=True)
    result[at + 'post_attention_layernorm.weight'] = Piece('mlp_norm', layer)
    result[at + 'mlp.gate_proj.weight'] = Piece('gate_up', layer, slice(0, f), True)
    result[at + 'mlp.up_proj.weight'] = Piece('gate_up', layer, slice(f, 2 * f), True)
    result[at + 'mlp.down_proj.weight'] = Piece('down', layer, transposed=True)
  result['model.norm.weight'] = Piece('final_norm')
  if not config.tie_embeddings:
    result['lm_head.weight'] = Piece('head', transposed=True)
  return result


def tensor_view(params: Mapping[str, Any], piece: Piece) -> np.ndarray:
  """The part of host parameters that holds a tensor, in the tensor's own orientation."""
  leaf = params[piece.leaf] if piece.layer is None else params['layers'][piece.leaf][piece.layer]
  view = leaf[..., piece.columns]
  return view.T if piece.transposed else view


def tensor_shapes(config: config_lib.ModelConfig) -> dict[str, tuple[int, ...]]:
  """Tensor name -> shape, as checkpoints hold them."""
  zero = np.zeros((), np.float32)
  shapes = param_shapes(config)
  # Broadcast zeros have the shape of a parameter and the memory of one number.
  layers = {name: np.broadcast_to(zero, shape) for name, shape in shapes.pop('layers').items()}
  blank = {name: np.broadcast_to(zero, shape) for name, shape in shapes.items()}
  blank['layers'] = layers
  return {name: tensor_view(blank, piece).shape for name, piece in pieces(config).items()}


def assemble(
    config: config_lib.ModelConfig,
    found: Mapping[str, tuple[int, ...]],
    read: Callable[[str], np.ndarray],
    path: Any,
) -> dict[str, Any]:
  """The policy's parameters from a checkpoint's tensors.

  Every name and shape is checked before anything is read; then one tensor at a
  time is read, so the peak is the parameters plus one tensor.

  Args:
    config: the model's shape.
    found: tensor name -> shape, all that the checkpoint holds.
    read: tensor name -> array; float of any width.
    path: the checkpoint, for messages.

  Returns:
    The parameters, f32.

  Raises:
    ValueError: a tensor is missing, has another shape, or is one that this
      model has no place for (it would be ignored, and the numbers wrong).
  """
  wanted = tensor_shapes(config)
  missing = [name for name in wanted if name not in found]
  if missing:
    raise ValueError(
        f'{path}: tensor {missing[0]} is missing ({len(missing)} of {len(wanted)} are); '
        f'a {config.family} model of {config.num_layers} layers needs it.')
  for name, shape in wanted.items():
    if tuple(found[name]) != shape:
      raise ValueError(
          f'{path}: tensor {name} has shape {list(found[name])}, its config says {list(shape)}.')
  spare = [name for name in found if name not in wanted]
  if spare == ['lm_head.weight'] and config.tie_embeddings and np.array_equal(
      read('lm_head.weight'), read('model.embed_tokens.weight')):
    spare = []
  if spare:
    raise ValueError(
        f'{path}: tensor {spare[0]} has no place in a {config.family} model of this config '
        f'({len(spare)} such); ignoring it would change the numbers.')

  shapes = param_shapes(config)
  layers = {name: np.empty(shape, np.float32) for name, shape in shapes.pop('layers').items()}
  params = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}
  params['layers'] = layers
  for name, piece in pieces(config).items():
    tensor_view(params, piece)[...] = read(name)
  return params
