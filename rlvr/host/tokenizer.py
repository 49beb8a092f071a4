"""Text to ids and back, chat prompts, and the ids that end a response.

Three rules keep log-probabilities on the tokens they belong to: masks go by
position and never by the pad id's value; any id of `stop_ids` ends a response
and is itself trained; ids that the policy sampled are never decoded and encoded
again (`append_turn`).
"""

import functools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders
from tokenizers import models
from tokenizers import pre_tokenizers

from rlvr.host import chat_template as chat_template_lib

_REPLY = '\ue000reply\ue001'  # stands for the sampled reply; private-use, so no text has it


class Tokenizer:
  """A vocabulary with its chat template and special ids.

  Attributes:
    backend: the `tokenizers.Tokenizer` underneath.
    vocab_size: 1 + the largest id; a model's embedding may have more rows.
    bos_id: id that opens a document, or None.
    add_bos: whether every encoded conversation opens with `bos_id`.
    stop_ids: ids that end a response, the tokenizer's own eos first.
    pad_id: fills rows; may equal a stop id, since masks go by position.
    chat_template: Jinja source; None means `chat_template.FALLBACK`.
  """

  def __init__(
      self,
      backend: tokenizers.Tokenizer,
      *,
      stop_ids: Sequence[int],
      bos_id: int | None = None,
      pad_id: int | None = None,
      add_bos: bool = False,
      chat_template: str | None = None,
  ):
    """Wraps a backend.

    Args:
      backend: vocabulary, merges and pre-tokenizer.
      stop_ids: end-of-sequence ids in order of preference, repeats allowed;
        end-of-turn tokens that the template writes are added to them.
      bos_id: see the class.
      pad_id: defaults to the first stop id.
      add_bos: see the class.
      chat_template: see the class.

    Raises:
      ValueError: no stop id, an id outside the vocabulary, or `add_bos`
        without `bos_id`.
    """
    backend.no_truncation()  # a tokenizer.json may carry both, and would cut prompts silently
    backend.no_padding()
    self.backend = backend
    self.chat_template = chat_template
    self.vocab_size = 1 + max(backend.get_vocab(with_added_tokens=True).values())
    written = [backend.token_to_id(token) for token in chat_template_lib.TURN_ENDS
               if chat_template and token in chat_template]
    self.stop_ids = tuple(dict.fromkeys(
        int(i) for i in (*stop_ids, *written) if i is not None))
    if not self.stop_ids:
      raise ValueError('A tokenizer needs at least one stop id (eos_token), got none.')
    self.bos_id = bos_id
    self.add_bos = add_bos
    self.pad_id = self.stop_ids[0] if pad_id is None else pad_id
    for name, index in (*(('stop id', i) for i in self.stop_ids),
                        ('bos_id', bos_id), ('pad_id', self.pad_id)):
      if index is not None and not 0 <= index < self.vocab_size:
        raise ValueError(f'{name}={index} is outside the vocabulary of {self.vocab_size} ids.')
    if add_bos and bos_id is None:
      raise ValueError('add_bos=True needs a bos_id.')

  @functools.cached_property
  def _plain_backend(self) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
    backend.encode_special_tokens = True
    return backend

  def encode(self, text: str, *, parse_special: bool = True) -> list[int]:
    """Ids of a text, with no token added.

    Args:
      text: any string.
      parse_special: read '<|im_end|>' and the like as their one id. False
        spells them out, for text from outside that must not end a turn.

    Returns:
      The ids.
    """
    backend = self.backend if parse_special else self._plain_backend
    return backend.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """Text of ids; special tokens are left out by default, unused ids always."""
    return self.backend.decode([int(i) for i in ids], skip_special_tokens=skip_special)

  def render(
      self,
      messages: Sequence[Mapping[str, Any]],
      *,
      add_generation_prompt: bool = True,
      tools: Sequence[Mapping[str, Any]] | None = None,
      variables: Mapping[str, Any] | None = None,
  ) -> str:
    """The text of a conversation; see `chat_template.render` for the arguments.

    Without a template: one line 'Role: content' a message, then 'Assistant:'.
    """
    special = {'bos_token': self.bos_id, 'eos_token': self.stop_ids[0], 'pad_token': self.pad_id}
    names = {name: self.backend.id_to_token(i) for name, i in special.items() if i is not None}
    return chat_template_lib.render(
        self.chat_template or chat_template_lib.FALLBACK, messages,
        add_generation_prompt=add_generation_prompt, tools=tools,
        variables={**names, **(variables or {})})

  def encode_chat(
      self,
      messages: Sequence[Mapping[str, Any]],
      *,
      add_generation_prompt: bool = True,
      tools: Sequence[Mapping[str, Any]] | None = None,
      variables: Mapping[str, Any] | None = None,
  ) -> list[int]:
    """Ids of a conversation, with exactly one BOS where the model uses one.

    Whether the template writes BOS, the tokenizer adds it, or both: one.
    """
    ids = self.encode(self.render(
        messages, add_generation_prompt=add_generation_prompt, tools=tools, variables=variables))
    if not self.add_bos:
      return ids
    start = next((t for t, i in enumerate(ids) if i != self.bos_id), len(ids))
    return [self.bos_id, *ids[start:]]

  def append_turn(
      self,
      ids: Sequence[int],
      messages: Sequence[Mapping[str, Any]],
      new_messages: Sequence[Mapping[str, Any]],
      *,
      tools: Sequence[Mapping[str, Any]] | None = None,
      variables: Mapping[str, Any] | None = None,
  ) -> list[int]:
    """A conversation's ids, continued by what comes after a sampled reply.

    Only the text after the reply is encoded, so the first len(ids) ids come
    back unchanged, whatever their text would encode to.

    Args:
      ids: the prompt's ids and the reply's, as sampled, with or without its
        stop token; the turn is closed here if it was cut short.
      messages: the messages whose rendering was the prompt.
      new_messages: what follows the reply (user, tool), at least one.
      tools: as given for the prompt.
      variables: as given for the prompt.

    Returns:
      `ids`, then the new ids up to where the next reply starts.

    Raises:
      ValueError: no new message, or a template that does not show the reply.
    """
    if not new_messages:
      raise ValueError('append_turn needs at least one message after the reply, got none.')
    reply = {'role': 'assistant', 'content': _REPLY}
    text = self.render([*messages, reply, *new_messages], tools=tools, variables=variables)
    _, found, tail = text.rpartition(_REPLY)
    if not found:
      raise ValueError('The chat template does not show the reply of an earlier turn.')
    ids = [int(i) for i in ids]
    new = self.encode(tail)
    if ids and ids[-1] in self.stop_ids and new and new[0] in self.stop_ids:
      new = new[1:]
    return ids + new


class ByteTokenizer(Tokenizer):
  """One id a byte, for the toy policy: 0 pad, 1 bos, 2 eos, 3 + b for byte b.

  Conversations are the contents one after another, one a line, with one BOS in
  front: a toy task has no roles. The specials are spelt <|pad|>, <|bos|>, <|eos|>.
  """

  OFFSET = 3
  _TEMPLATE = "{{ messages | map(attribute='content') | join('\n') }}"

  def __init__(self):
    vocab = {'<|pad|>': 0, '<|bos|>': 1, '<|eos|>': 2}
    vocab |= {character: self.OFFSET + b for b, character in enumerate(_byte_characters())}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.add_special_tokens(['<|pad|>', '<|bos|>', '<|eos|>'])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    super().__init__(backend, stop_ids=(2,), bos_id=1, pad_id=0, add_bos=True,
                     chat_template=self._TEMPLATE)


def _byte_characters() -> list[str]:
  """The printable character that byte-level BPE writes for each byte (GPT-2's table)."""
  printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
  others = iter(range(256, 512))
  return [chr(b if b in printable else next(others)) for b in range(256)]


def keep_through_first_stop(ids: Any, stop_ids: Sequence[int]) -> np.ndarray:
  """Which positions belong to a response: through its first stop token.

  By position, so a pad id that equals a stop id does no harm.

  Args:
    ids: i32[..., T], responses, filled to T with anything.
    stop_ids: every id that ends a response.

  Returns:
    f32[..., T] of 0 and 1; all 1 in a row without a stop token.
  """
  stops = np.isin(np.asarray(ids), np.asarray(stop_ids, dtype=np.int64))
  before = np.cumsum(stops, axis=-1) - stops
  return (before == 0).astype(np.float32)
