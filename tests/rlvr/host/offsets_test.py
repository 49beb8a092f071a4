"""Tests of rlvr.host.offsets, and the way of an offset from a verifier to a rollout."""

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders
from tokenizers import models

from rlvr import verifiers
from rlvr.host import offsets
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.host import verify_pool
from rlvr.verifiers import verdict


def merged():
  """Characters, 'ab' and 'abc' as one token each, and one special token."""
  vocab = {c: i for i, c in enumerate(['a', 'b', 'c', ' ', 'ab', 'abc'])}
  backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[('a', 'b'), ('ab', 'c')]))
  backend.decoder = decoders.Fuse()
  backend.add_special_tokens(['<eos>'])
  return tokenizer_lib.Tokenizer(backend, stop_ids=[6])


def byte_fallback():
  """Characters that are no token of their own are spelt in bytes, '\ufffd' each on its own."""
  vocab = {f'<0x{b:02X}>': b for b in range(256)} | {'a': 256, 'b': 257}
  backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
  backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
  return tokenizer_lib.Tokenizer(backend, stop_ids=[0])


def places(tokenizer, ids):
  text = tokenizer.decode(ids)
  return [offsets.token_index(tokenizer, ids, text, i) for i in range(len(text))]


class TestTokenIndex:

  def test_a_byte_a_character(self):
    tokenizer = tokenizer_lib.ByteTokenizer()
    assert places(tokenizer, tokenizer.encode('2+3=6')) == [0, 1, 2, 3, 4]

  def test_a_token_of_several_characters(self):
    assert places(merged(), [5, 3, 4, 2]) == [0, 0, 0, 1, 2, 2, 3]  # 'abc ab' + 'c'

  def test_the_same_text_in_other_tokens(self):
    assert places(merged(), [0, 1, 2, 3, 4, 2]) == [0, 1, 2, 3, 4, 4, 5]

  def test_a_character_of_several_tokens_begins_with_its_first(self):
    tokenizer = tokenizer_lib.ByteTokenizer()
    assert places(tokenizer, tokenizer.encode('aé€😀b')) == [0, 1, 3, 6, 10]

  def test_bytes_that_decode_to_more_characters_at_first(self):
    """Half of '€' is two characters here, the whole is one: lengths alone would mislead."""
    tokenizer = byte_fallback()
    ids = [256, 0xE2, 0x82, 0xAC, 257]
    assert [len(tokenizer.decode(ids[:n])) for n in range(1, 6)] == [1, 2, 3, 2, 3]
    assert places(tokenizer, ids) == [0, 1, 4]

  def test_a_token_that_ends_one_character_and_holds_the_next(self):
    vocab = {'a': 0, 'â': 1, 'Ĥ¬b': 2}  # bytes 'a', E2 and 82 AC 'b'
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.decoder = decoders.ByteLevel()
    tokenizer = tokenizer_lib.Tokenizer(backend, stop_ids=[0])
    assert tokenizer.decode([0, 1, 2]) == 'a€b'
    assert places(tokenizer, [0, 1, 2]) == [0, 1, 2]

  def test_bytes_that_are_no_text(self):
    tokenizer = tokenizer_lib.ByteTokenizer()
    ids = [3 + b for b in b'a\xff\xe2\x82(']
    assert tokenizer.decode(ids) == 'a\ufffd\ufffd('
    assert places(tokenizer, ids) == [0, 1, 2, 4]

  def test_special_tokens_hold_no_character(self):
    assert places(merged(), [6, 4, 6, 2, 6]) == [1, 1, 3]

  @pytest.mark.parametrize('offset', [-1, 3, 99])
  def test_no_such_character(self, offset):
    assert offsets.token_index(merged(), [5], 'abc', offset) == -1
    assert offsets.token_index(merged(), [], '', offset) == -1

  def test_bisection_finds_what_a_scan_finds(self):
    tokenizer, rng = tokenizer_lib.ByteTokenizer(), np.random.default_rng(0)
    for _ in range(50):
      ids = [3 + int(b) for b in rng.choice([97, 0xE2, 0x82, 0xAC, 0xC3, 0xF0, 0x9F], 12)]
      text = tokenizer.decode(ids)
      prefixes = [tokenizer.decode(ids[:n]) for n in range(1, len(ids) + 1)]
      scanned = [next(i for i, p in enumerate(prefixes) if len(p) > c and p[:c] == text[:c])
                 for c in range(len(text))]
      assert places(tokenizer, ids) == scanned


class TestTokenPlaces:

  def test_one_column_a_name_and_minus_one_where_there_is_none(self):
    tokenizer = tokenizer_lib.ByteTokenizer()
    texts = ['a=é1', 'a', '', 'b', '']
    ids = [tokenizer.encode(text) for text in texts]
    tokens, valid = np.zeros((5, 6), np.int32), np.zeros((5, 6), bool)
    for row, one in enumerate(ids):
      tokens[row, :len(one)], valid[row, :len(one)] = one, True
    verdicts = [verdict.Verdict(1.0, offsets={'x': 3, 'y': 0, 'other': 1}),
                verdict.Verdict(0.0, offsets={'x': -1}),
                verdict.Verdict(0.0, offsets={'x': 0}),
                verdict.Verdict(0.0, status='outage', offsets={'x': 0}), None]
    result = offsets.token_places(tokenizer, tokens, valid, texts, verdicts, ('x', 'y'))
    assert set(result) == {'x', 'y'}
    assert {x.dtype for x in result.values()} == {np.dtype('int32')}
    np.testing.assert_array_equal(result['x'], [4, -1, -1, -1, -1])
    np.testing.assert_array_equal(result['y'], [0, -1, -1, -1, -1])

  def test_no_names(self):
    empty = np.zeros((1, 2), np.int32)
    assert offsets.token_places(None, empty, empty != 0, [''], [None], ()) == {}


def test_offsets_come_back_from_a_grading_process():
  task = {'answer': '9', 'messages': [{'role': 'user', 'content': '2+3+4='}]}
  with verify_pool.VerifyPool(
      verifiers.judged_steps, num_workers=1, warm_task=task) as pool:
    graded = pool.grade([task] * 3, ['5+4=9', '5+4=8', '6+4=9'])
  assert [dict(v.offsets) for v in graded] == [
      {'first_error': -1}, {'first_error': 4}, {'first_error': 0}]
  assert [v.reward for v in graded] == [1, 0, 1]
