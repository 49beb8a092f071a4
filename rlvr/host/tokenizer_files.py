"""Tokenizers from the files of a checkpoint (a Hugging Face folder, GGUF metadata), and back."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import decoders
from tokenizers import models
from tokenizers import normalizers
from tokenizers import pre_tokenizers
from tokenizers import processors

from rlvr.host import tokenizer as tokenizer_lib

# How Llama 3 and Qwen 2 cut text into words before BPE; they differ in the run of digits.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def _split(digits: str) -> pre_tokenizers.PreTokenizer:
  return pre_tokenizers.Sequence([
      pre_tokenizers.Split(tokenizers.Regex(_WORDS % digits), behavior='isolated'),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _gpt2(*first: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
  return pre_tokenizers.Sequence([
      *first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


# GGUF's tokenizer.ggml.pre -> pre-tokenizer, normalizer, whether whole words skip the merges.
_PRE_TOKENIZERS = {
    'gpt-2': (_gpt2(), None, False),
    'smollm': (_gpt2(pre_tokenizers.Digits(individual_digits=True)), None, False),
    'llama-bpe': (_split(r'\p{N}{1,3}'), None, True),
    'llama3': (_split(r'\p{N}{1,3}'), None, True),
    'llama-v3': (_split(r'\p{N}{1,3}'), None, True),
    'qwen2': (_split(r'\p{N}'), normalizers.NFC(), False),
    'deepseek-r1-qwen': (_split(r'\p{N}'), None, False),
}

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5  # GGUF token types that matter here


def from_gguf(fields: Mapping[str, Any], path: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The tokenizer in a GGUF file's metadata.

  Args:
    fields: metadata by key.
    path: the file, for messages.

  Returns:
    A Tokenizer; unused padding entries of the vocabulary are left out.

  Raises:
    ValueError: not byte-level BPE, or a pre-tokenizer we have no rule for.
  """
  kind = fields.get('tokenizer.ggml.model')
  if kind != 'gpt2':
    raise ValueError(
        f'{path}: tokenizer.ggml.model={kind!r} is not supported; it must be "gpt2" '
        f'(byte-level BPE), or load the Hugging Face folder of the same model.')
  pre = fields.get('tokenizer.ggml.pre')
  if pre not in _PRE_TOKENIZERS:
    raise ValueError(
        f'{path}: tokenizer.ggml.pre={pre!r} is not a pre-tokenizer we know; '
        f'known: {", ".join(_PRE_TOKENIZERS)}.')
  for key in ('tokens', 'token_type', 'merges'):
    if f'tokenizer.ggml.{key}' not in fields:
      raise ValueError(f'{path}: the metadata tokenizer.ggml.{key} is missing.')
  tokens = fields['tokenizer.ggml.tokens']
  types = fields['tokenizer.ggml.token_type']
  merges = [tuple(merge.split(' ', 1)) for merge in fields['tokenizer.ggml.merges']]
  pre_tokenizer, normalizer, ignore_merges = _PRE_TOKENIZERS[pre]

  vocab = {token: i for i, (token, kind) in enumerate(zip(tokens, types, strict=True))
           if kind != _UNUSED}
  backend = tokenizers.Tokenizer(
      models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
  backend.pre_tokenizer = pre_tokenizer
  backend.decoder = decoders.ByteLevel()
  if normalizer is not None:
    backend.normalizer = normalizer
  for token, kind in zip(tokens, types, strict=True):
    if kind in (_CONTROL, _USER_DEFINED):
      special = kind == _CONTROL
      added = tokenizers.AddedToken(token, special=special, normalized=False)
      backend.add_special_tokens([added]) if special else backend.add_tokens([added])

  bos_id = fields.get('tokenizer.ggml.bos_token_id')
  # Files from before the key was written leave it out; Llama 3's template then writes BOS itself.
  add_bos = bool(fields.get('tokenizer.ggml.add_bos_token', pre in ('llama-bpe', 'llama3')))
  add_bos = add_bos and bos_id is not None
  if add_bos:
    _open_with(backend, bos_id)
  return tokenizer_lib.Tokenizer(
      backend, bos_id=bos_id, add_bos=add_bos,
      pad_id=fields.get('tokenizer.ggml.padding_token_id'),
      stop_ids=[fields[key] for key in (
          'tokenizer.ggml.eos_token_id', 'tokenizer.ggml.eot_token_id',
          'tokenizer.ggml.eom_token_id') if key in fields],
      chat_template=fields.get('tokenizer.chat_template'))


def _open_with(backend, bos_id):
  """Makes other tools that read the exported file add BOS, as this one does."""
  bos = backend.id_to_token(bos_id)
  backend.post_processor = processors.Sequence([
      processors.ByteLevel(trim_offsets=False),
      processors.TemplateProcessing(
          single=[bos, '$A'], pair=[bos, '$A', f'{bos}:1', '$B:1'],
          special_tokens=[(bos, bos_id)])])


def read_json(path: pathlib.Path, *, required: bool = True) -> dict[str, Any]:
  """A JSON object from a file; {} if the file is absent and not required.

  Raises:
    ValueError: the file is missing, or does not hold a JSON object.
  """
  if not path.is_file():
    if required:
      raise ValueError(f'{path} is missing.')
    return {}
  try:
    value = json.loads(path.read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(f'{path} is not valid JSON: {error}.') from error
  if not isinstance(value, dict):
    raise ValueError(f'{path} must hold a JSON object, got {type(value).__name__}.')
  return value


def from_folder(folder: pathlib.Path) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a Hugging Face folder.

  Stop ids are gathered from tokenizer_config.json, config.json and
  generation_config.json (a number or a list each), since a chat model often
  lists its end of turn in only one of them.

  Args:
    folder: holds tokenizer.json, and what else there is of the files above and
      chat_template.jinja.

  Returns:
    A Tokenizer.

  Raises:
    ValueError: tokenizer.json is missing or unreadable, or no stop id is given.
  """
  path = folder / 'tokenizer.json'
  if not path.is_file():
    raise ValueError(f'{path} is missing; save the model with its fast tokenizer.')
  try:
    backend = tokenizers.Tokenizer.from_file(str(path))
  except Exception as error:  # the library raises bare Exception
    raise ValueError(f'{path} is not a tokenizer the tokenizers library reads: {error}.') from error
  settings = read_json(folder / 'tokenizer_config.json', required=False)
  configs = [read_json(folder / name, required=False)
             for name in ('config.json', 'generation_config.json')]

  def token_id(key):
    token = settings.get(key)
    token = token.get('content') if isinstance(token, dict) else token
    return None if token is None else backend.token_to_id(token)

  def first_id(name):
    ids = (token_id(f'{name}_token'), *(c.get(f'{name}_token_id') for c in configs))
    return next((i for i in ids if i is not None), None)

  stop_ids = [token_id('eos_token')]
  for config in configs:
    declared = config.get('eos_token_id')
    stop_ids += declared if isinstance(declared, list) else [declared]
  stop_ids = [i for i in stop_ids if i is not None]
  if not all(isinstance(i, int) for i in stop_ids):
    raise ValueError(f'{folder}: eos_token_id must hold token ids, got {stop_ids}.')
  bos_id = first_id('bos')
  opens = backend.encode('', add_special_tokens=True).ids[:1] == [bos_id]
  add_bos = settings.get('add_bos_token')
  try:
    return tokenizer_lib.Tokenizer(
        backend, stop_ids=stop_ids, bos_id=bos_id,
        pad_id=first_id('pad'), add_bos=bos_id is not None and (
            opens if add_bos is None else bool(add_bos)),
        chat_template=_template(folder, settings))
  except ValueError as error:
    raise ValueError(f'{folder}: {error}') from error


def _template(folder, settings):
  separate = folder / 'chat_template.jinja'
  if separate.is_file():
    return separate.read_text(encoding='utf-8')
  template = settings.get('chat_template')
  if isinstance(template, list):  # several named templates
    named = {entry['name']: entry['template'] for entry in template}
    return named.get('default')
  return template


def to_files(tokenizer: tokenizer_lib.Tokenizer) -> dict[str, str]:
  """File name -> text of tokenizer.json and tokenizer_config.json, as `from_folder` reads them."""
  settings = {
      'tokenizer_class': 'PreTrainedTokenizerFast',
      'clean_up_tokenization_spaces': False,
      'add_bos_token': tokenizer.add_bos,
  }
  for name, index in (('bos', tokenizer.bos_id), ('eos', tokenizer.stop_ids[0]),
                      ('pad', tokenizer.pad_id)):
    if index is not None:
      settings[f'{name}_token'] = tokenizer.backend.id_to_token(index)
  if tokenizer.chat_template is not None:
    settings['chat_template'] = tokenizer.chat_template
  return {
      'tokenizer.json': tokenizer.backend.to_str(pretty=False),
      'tokenizer_config.json': json.dumps(settings, indent=2, ensure_ascii=False) + '\n',
  }
