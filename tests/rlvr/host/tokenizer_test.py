"""Ids of texts and chats, stop ids, and masks by position."""

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders
from tokenizers import models

from rlvr.host import tokenizer as tokenizer_lib

USER = [{'role': 'user', 'content': 'hello'}]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def make_tokenizer(**options):
  """Characters and one merge, 'he' + 'llo' = 'hello', so that splits can differ."""
  characters = sorted(set('abcdefghijklmnopqrstuvwxyz \n?:UA'))
  vocab = {c: i for i, c in enumerate([*characters, 'll', 'llo', 'he', 'hello'])}
  merges = [('l', 'l'), ('ll', 'o'), ('h', 'e'), ('he', 'llo')]
  backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
  backend.decoder = decoders.Fuse()
  backend.add_special_tokens(['<bos>', '<eos>', '<|im_start|>', '<|im_end|>'])
  options.setdefault('stop_ids', [backend.token_to_id('<eos>')])
  return tokenizer_lib.Tokenizer(backend, **options)


class TestEncode:

  def test_adds_nothing(self):
    tokenizer = make_tokenizer(bos_id=36, add_bos=True)
    assert tokenizer.decode(tokenizer.encode('hello'), skip_special=False) == 'hello'
    assert tokenizer.encode('') == []

  def test_special_text_is_parsed_or_spelt(self):
    tokenizer = tokenizer_lib.ByteTokenizer()
    assert tokenizer.encode('a<|eos|>') == [3 + 97, 2]
    spelt = tokenizer.encode('a<|eos|>', parse_special=False)
    assert spelt == [3 + b for b in b'a<|eos|>']
    assert tokenizer.encode('<|eos|>') == [2]  # the spelling backend leaves the other alone

  def test_truncation_and_padding_of_the_file_are_off(self):
    backend = make_tokenizer().backend
    backend.enable_truncation(max_length=2)
    backend.enable_padding(length=50)
    assert len(tokenizer_lib.Tokenizer(backend, stop_ids=[1]).encode('abcdefg')) == 7


class TestStopIds:

  def test_fault_2_every_declared_id_and_the_turn_end_of_the_template(self):
    tokenizer = make_tokenizer(chat_template=CHATML, stop_ids=[37, 5, 37])
    assert tokenizer.stop_ids == (37, 5, tokenizer.backend.token_to_id('<|im_end|>'))

  def test_turn_end_counts_only_where_the_template_writes_it(self):
    assert make_tokenizer().stop_ids == (37,)

  def test_needs_one(self):
    with pytest.raises(ValueError, match='at least one stop id'):
      make_tokenizer(stop_ids=[])

  def test_outside_the_vocabulary(self):
    with pytest.raises(ValueError, match='stop id=99 is outside the vocabulary of 40 ids'):
      make_tokenizer(stop_ids=[99])

  def test_add_bos_needs_bos(self):
    with pytest.raises(ValueError, match='needs a bos_id'):
      make_tokenizer(add_bos=True)


class TestEncodeChat:

  def test_fault_5_template_emits_bos_and_tokenizer_adds_it(self):
    tokenizer = make_tokenizer(bos_id=36, add_bos=True, chat_template='{{ bos_token }}' + CHATML)
    ids = tokenizer.encode_chat(USER)
    assert ids.count(36) == 1 and ids[0] == 36

  def test_fault_5_template_emits_bos_twice(self):
    tokenizer = make_tokenizer(bos_id=36, add_bos=True, chat_template='<bos><bos>' + CHATML)
    assert tokenizer.encode_chat(USER).count(36) == 1

  def test_fault_5_template_without_bos(self):
    tokenizer = make_tokenizer(bos_id=36, add_bos=True, chat_template=CHATML)
    ids = tokenizer.encode_chat(USER)
    assert ids.count(36) == 1 and ids[0] == 36

  def test_fault_5_model_without_bos(self):
    tokenizer = make_tokenizer(bos_id=36, chat_template=CHATML)
    assert tokenizer.encode_chat(USER).count(36) == 0

  def test_no_template(self):
    tokenizer = make_tokenizer()
    assert tokenizer.render(USER) == 'User: hello\nAssistant:'


class TestAppendTurn:

  def setup_method(self):
    self.tokenizer = make_tokenizer(chat_template=CHATML)
    self.prompt = self.tokenizer.encode_chat(USER)
    token_id = self.tokenizer.backend.token_to_id
    self.split = [token_id('he'), token_id('llo')]
    self.end = token_id('<|im_end|>')
    self.more = [{'role': 'user', 'content': 'more?'}]

  def test_fault_6_sampled_ids_are_kept(self):
    assert self.tokenizer.encode('hello') != self.split  # decode then encode would join them
    ids = [*self.prompt, *self.split, self.end]
    result = self.tokenizer.append_turn(ids, USER, self.more)
    assert result[:len(ids)] == ids
    assert self.tokenizer.decode(result[len(ids):], skip_special=False) == (
        '\n<|im_start|>user\nmore?<|im_end|>\n<|im_start|>assistant\n')

  def test_turn_cut_short_is_closed(self):
    ids = [*self.prompt, *self.split]
    result = self.tokenizer.append_turn(ids, USER, self.more)
    assert result[:len(ids)] == ids and result[len(ids)] == self.end
    assert result.count(self.end) == 3

  def test_other_stop_token_is_not_followed_by_a_second(self):
    ids = [*self.prompt, *self.split, self.tokenizer.stop_ids[0]]
    result = self.tokenizer.append_turn(ids, USER, self.more)
    assert result[len(ids)] != self.end

  def test_accepts_arrays(self):
    ids = np.asarray([*self.prompt, *self.split, self.end], np.int32)
    result = self.tokenizer.append_turn(ids, USER, self.more)
    assert all(type(i) is int for i in result)

  def test_needs_a_message(self):
    with pytest.raises(ValueError, match='at least one message'):
      self.tokenizer.append_turn(self.prompt, USER, [])


class TestByteTokenizer:

  def setup_method(self):
    self.tokenizer = tokenizer_lib.ByteTokenizer()

  def test_ids(self):
    assert self.tokenizer.vocab_size == 259
    assert (self.tokenizer.pad_id, self.tokenizer.bos_id) == (0, 1)
    assert self.tokenizer.stop_ids == (2,)
    assert self.tokenizer.encode('A\x00é') == [68, 3, 3 + 0xc3, 3 + 0xa9]

  def test_every_byte_has_its_id(self):
    text = ''.join(map(chr, range(0x250))) + '✓🙂'
    assert self.tokenizer.encode(text) == [3 + b for b in text.encode()]
    assert self.tokenizer.decode(self.tokenizer.encode(text)) == text

  def test_invalid_utf8_is_replaced(self):
    assert self.tokenizer.decode([3 + 0xff, 68]) == '\ufffdA'

  def test_chat_is_contents_behind_one_bos(self):
    assert self.tokenizer.encode_chat(USER) == [1, *self.tokenizer.encode('hello')]
    ids = [*self.tokenizer.encode_chat(USER), 68, 2]
    result = self.tokenizer.append_turn(ids, USER, [{'role': 'user', 'content': 'B'}])
    assert result == [*ids, 3 + 10, 3 + 66]


class TestKeepThroughFirstStop:

  def test_fault_1_pad_equals_eos(self):
    mask = tokenizer_lib.keep_through_first_stop([5, 7, 2, 2, 2], (2,))
    np.testing.assert_array_equal(mask, [1, 1, 1, 0, 0])
    assert mask.dtype == np.float32

  def test_fault_2_any_stop_id_ends_and_is_kept(self):
    mask = tokenizer_lib.keep_through_first_stop([5, 9, 7, 7], (2, 9))
    np.testing.assert_array_equal(mask, [1, 1, 0, 0])

  def test_rows_without_stop_and_with_it_first(self):
    mask = tokenizer_lib.keep_through_first_stop([[5, 6, 7], [2, 5, 2]], (2,))
    np.testing.assert_array_equal(mask, [[1, 1, 1], [1, 0, 0]])

  def test_empty(self):
    assert tokenizer_lib.keep_through_first_stop(np.zeros((2, 0), int), (2,)).shape == (2, 0)
