"""Writes a policy as a Hugging Face folder that other tools load."""

import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import jax
import ml_dtypes
import numpy as np
from safetensors import numpy as safetensors_numpy

from rlvr.host import checkpoint_layout
from rlvr.host import hf_config
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.host import tokenizer_files
from rlvr.policy import config as config_lib

_DTYPES = {'float32': np.dtype(np.float32), 'bfloat16': np.dtype(ml_dtypes.bfloat16)}


def export(
    path: str | pathlib.Path,
    config: config_lib.ModelConfig,
    params: Mapping[str, Any],
    tokenizer: tokenizer_lib.Tokenizer,
    *,
    dtype: str = 'float32',
    max_shard_bytes: int = 5_000_000_000,
    overwrite: bool = False,
) -> pathlib.Path:
  """Writes config, weights, tokenizer and generation settings.

  The folder appears whole or not at all: it is written beside its place and
  renamed. One shard at a time is in memory beside the parameters.
  `load_weights.load` of an f32 export gives the same bits back.

  Args:
    path: the folder to make.
    config: the model's shape.
    params: as `checkpoint_layout.param_shapes` lays them out; numpy or jax.
    tokenizer: its ids fit the embedding.
    dtype: 'float32' or 'bfloat16' (rounded to nearest).
    max_shard_bytes: above this, weights are split into shards with an index;
      a tensor larger than this is a shard of its own.
    overwrite: replace a folder that holds something.

  Returns:
    The folder.

  Raises:
    ValueError: the folder holds something; parameters that do not fit the
      config; a tokenizer larger than the embedding; an unknown dtype.
  """
  path = pathlib.Path(path).expanduser()
  if dtype not in _DTYPES:
    raise ValueError(f'dtype={dtype!r} is not supported; known: {", ".join(_DTYPES)}.')
  if max_shard_bytes < 1:
    raise ValueError(f'max_shard_bytes={max_shard_bytes} must be positive.')
  if path.exists() and not (path.is_dir() and (overwrite or not any(path.iterdir()))):
    raise ValueError(f'{path} exists; name a new folder or say overwrite=True.')
  _check_shapes(config, params)
  if tokenizer.vocab_size > config.vocab_size:
    raise ValueError(
        f'The tokenizer has ids up to {tokenizer.vocab_size - 1}, the embedding only '
        f'{config.vocab_size} rows.')
  ids = {'bos_token_id': tokenizer.bos_id, 'eos_token_id': list(tokenizer.stop_ids),
         'pad_token_id': tokenizer.pad_id}
  texts = {
      'config.json': _json(hf_config.to_json(config) | {'torch_dtype': dtype} | ids),
      'generation_config.json': _json(ids),
      **tokenizer_files.to_files(tokenizer),
  }

  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_name(f'.{path.name}.{os.getpid()}.partial')
  partial.mkdir()
  try:
    for name, text in texts.items():
      (partial / name).write_text(text, encoding='utf-8')
    _write_weights(partial, config, params, _DTYPES[dtype], max_shard_bytes)
    _swap(partial, path)
  finally:
    shutil.rmtree(partial, ignore_errors=True)
  return path


def _json(value):
  return json.dumps(value, indent=2) + '\n'


def _check_shapes(config, params):
  wanted = checkpoint_layout.param_shapes(config)
  is_shape = lambda x: isinstance(x, tuple)
  flat = {jax.tree_util.keystr(k): v for k, v in
          jax.tree_util.tree_flatten_with_path(wanted, is_leaf=is_shape)[0]}
  given = {jax.tree_util.keystr(k): np.shape(v) for k, v in
           jax.tree_util.tree_flatten_with_path(dict(params))[0]}
  for key in sorted(flat.keys() | given.keys()):
    if flat.get(key) != given.get(key):
      raise ValueError(
          f'params{key} has shape {given.get(key, "(absent)")}, the config says '
          f'{flat.get(key, "(absent)")}; merge adapters before an export.')


def _write_weights(folder, config, params, dtype, max_shard_bytes):
  sizes = {name: int(np.prod(shape)) * dtype.itemsize
           for name, shape in checkpoint_layout.tensor_shapes(config).items()}
  shards = [[]]
  room = max_shard_bytes
  for name, size in sizes.items():
    if shards[-1] and size > room:
      shards.append([])
      room = max_shard_bytes
    shards[-1].append(name)
    room -= size

  pieces = checkpoint_layout.pieces(config)
  host = jax.tree.map(np.asarray, dict(params))
  weight_map = {}
  for k, names in enumerate(shards):
    file = ('model.safetensors' if len(shards) == 1
            else f'model-{k + 1:05d}-of-{len(shards):05d}.safetensors')
    tensors = {
        name: np.ascontiguousarray(
            checkpoint_layout.tensor_view(host, pieces[name]).astype(dtype, copy=False))
        for name in names}
    safetensors_numpy.save_file(tensors, folder / file, metadata={'format': 'pt'})
    (folder / file).chmod((folder / 'config.json').stat().st_mode)  # else the owner's only
    weight_map |= dict.fromkeys(names, file)
  if len(shards) > 1:
    index = {'metadata': {'total_size': sum(sizes.values())}, 'weight_map': weight_map}
    (folder / 'model.safetensors.index.json').write_text(_json(index), encoding='utf-8')


def _swap(partial, path):
  """Puts a finished folder in its place; an old one stays until the new one is there."""
  old = path.with_name(f'.{path.name}.{os.getpid()}.old')
  if path.exists():
    path.rename(old)
  try:
    partial.rename(path)
  except OSError:
    if old.exists():
      old.rename(path)
    raise
  shutil.rmtree(old, ignore_errors=True)
