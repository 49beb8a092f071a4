"""Weights of a Hugging Face folder: config.json and safetensors, whole or in shards."""

import contextlib
import pathlib
from typing import Any

import ml_dtypes  # noqa: F401  (gives numpy the bfloat16 that safetensors returns)
import safetensors

from rlvr.host import checkpoint_layout
from rlvr.host import hf_config
from rlvr.host import tokenizer_files
from rlvr.policy import config as config_lib

_DTYPES = ('F32', 'F16', 'BF16')


def load(folder: pathlib.Path) -> tuple[config_lib.ModelConfig, dict[str, Any]]:
  """Config and f32 parameters of a folder.

  Files are mapped, so beside the parameters there is one tensor in memory.

  Args:
    folder: holds config.json and model.safetensors, or shards with
      model.safetensors.index.json.

  Returns:
    The config, and the parameters as `checkpoint_layout.param_shapes` lays
    them out.

  Raises:
    ValueError: a missing or truncated file, an unsupported model, a missing,
      misshapen or spare tensor; in one sentence that names it.
  """
  config = hf_config.from_json(
      tokenizer_files.read_json(folder / 'config.json'), folder / 'config.json')
  with contextlib.ExitStack() as stack:
    files = {}  # tensor name -> the open file that holds it
    found = {}
    for path in _shards(folder):
      reader = stack.enter_context(_open(path))
      for name in reader.keys():
        if name in found:
          raise ValueError(f'{path}: tensor {name} is in another shard as well.')
        if name.endswith('rotary_emb.inv_freq'):
          continue  # a buffer that old versions saved; config.json says the same
        part = reader.get_slice(name)
        if part.get_dtype() not in _DTYPES:
          raise ValueError(
              f'{path}: tensor {name} is {part.get_dtype()}; it must be one of '
              f'{", ".join(_DTYPES)}.')
        files[name] = reader
        found[name] = tuple(part.get_shape())
    params = checkpoint_layout.assemble(
        config, found, lambda name: files[name].get_tensor(name), folder)
  return config, params


def _shards(folder):
  whole = folder / 'model.safetensors'
  if whole.is_file():
    return [whole]
  index = folder / 'model.safetensors.index.json'
  if not index.is_file():
    raise ValueError(f'{folder} holds neither model.safetensors nor {index.name}.')
  shards = tokenizer_files.read_json(index).get('weight_map')
  if not isinstance(shards, dict) or not shards:
    raise ValueError(f'{index}: weight_map must name the shard of every tensor.')
  paths = [folder / name for name in sorted(set(shards.values()))]
  for path in paths:
    if not path.is_file():
      raise ValueError(f'{path} is missing; {index.name} lists it.')
  return paths


@contextlib.contextmanager
def _open(path):
  try:
    reader = safetensors.safe_open(path, framework='numpy')
  except safetensors.SafetensorError as error:
    raise ValueError(f'{path} is truncated or not a safetensors file: {error}.') from error
  with reader as opened:
    yield opened
