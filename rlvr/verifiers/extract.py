r"""Finds the answer inside a text. Every function is linear in the text's length.

The text comes from a model and is hostile input: no pattern here can backtrack
over more than a constant, and no number is turned into an `int` (Python refuses
more than 4300 digits, and a power of ten can be asked for in eight characters).
Numbers are compared as canonical strings instead: '$1,000.00' is '1000'.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_DIGITS = 1000  # a longer number is not an answer

_BRACES = re.compile(r'\\(?:boxed|fbox)\s*\{|\\.|[{}]', re.DOTALL)
# Linear: each group is followed by a character that the group cannot hold.
_NUMBER = re.compile(
    r'(?P<sign>[-+]?)(?:\\?[$€£¥]\s?)?(?P<inner>[-+]?)'
    r'(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)?'
    r'(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]{1,3}(?![0-9]))?')
_START = re.compile(r'[-+$€£¥\\.0-9]')
_DIGIT = re.compile(r'[0-9]')
_MINUSES = dict.fromkeys(map(ord, '\u2212\u2013\ufe63\uff0d'), '-')
_SPACED = re.compile(r'\\[,!;: ]|\{,\}')
_SPACE = re.compile(r'\s+')
_TEXT = re.compile(r'\\(?:text|mathrm|textbf|mathbf|textit|mbox)\s*\{([^{}]*)\}')


def last_box(text: str) -> str | None:
  r"""What the last balanced \boxed{...} or \fbox{...} holds, innermost if nested.

  '\{' and '\}' are characters, not braces. None where no box closes.
  """
  stack, found = [], None
  for match in _BRACES.finditer(text):
    token = match.group()
    if token.endswith('{') and token != r'\{':
      stack.append((match.end(), len(token) > 1, found))
    elif token == '}' and stack:
      start, is_box, before = stack.pop()
      # A box that closed inside this one is the answer: found changed since.
      if is_box and found is before:
        found = (start, match.start())
  return None if found is None else text[found[0]:found[1]].strip()


def last_hash(text: str) -> str | None:
  """What follows the last '####' on its line (GSM8K), or None where there is nothing."""
  start = text.rfind('####')
  if start < 0:
    return None
  line = text[start + 4:].split('\n', 1)[0].strip()
  return line or None


def marked(text: str) -> str | None:
  """The last box, else the last '####' answer, else None."""
  box = last_box(text)
  return last_hash(text) if box is None else box


def last_tag(text: str, tag: str) -> str | None:
  """What the last closed <tag>...</tag> holds, stripped, or None."""
  end = text.rfind(f'</{tag}>')
  start = text.rfind(f'<{tag}>', 0, max(end, 0))
  return None if start < 0 else text[start + len(tag) + 2:end].strip()


def last_number(text: str) -> str | None:
  """The canonical form of the last number in a text, or None.

  A number needs a digit: '72 clips, altogether.' gives '72'. A thousands comma
  belongs to the number, a sign too unless a digit, letter or bracket stands
  before it ('10-5' ends in '5').
  """
  text = _plain(text)
  found, position = None, 0
  while True:
    start = _START.search(text, position)
    if start is None:
      return None if found is None else _canonical(text, found)
    match = _NUMBER.match(text, start.start())
    if match is None or not (match['whole'] or match['fraction']):
      position = start.start() + 1
    else:
      found, position = match, match.end()


def number(text: str) -> str | None:
  """The canonical form of a text that is one number and nothing else, or None.

  Allows a currency sign, a closing period, and dollar signs around it.
  """
  text = normalised(text)
  match = _NUMBER.fullmatch(text)
  if match is None or not (match['whole'] or match['fraction']):
    return None
  return _canonical(text, match)


def normalised(text: str, *, ignore_case: bool = False) -> str:
  r"""A short answer without what does not change it.

  Unicode forms, control characters, spaces (runs become one), dollar signs and
  '\(...\)' around the whole, a closing period, '\text{}' and '\left', '\right'.
  """
  text = _plain(unicodedata.normalize('NFC', text))
  text = _TEXT.sub(r'\1', text).replace(r'\left', '').replace(r'\right', '')
  text = ''.join(c if unicodedata.category(c)[0] != 'C' or c.isspace() else ' ' for c in text)
  text = _SPACE.sub(' ', text).strip().rstrip('.').strip()
  for opening, closing in (('$$', '$$'), ('$', '$'), (r'\(', r'\)'), (r'\[', r'\]')):
    if len(text) > len(opening + closing) and text.startswith(opening) and text.endswith(closing):
      text = text[len(opening):-len(closing)].strip().rstrip('.').strip()
  return text.casefold() if ignore_case else text


def gold_text(task: Mapping[str, Any]) -> str | None:
  """The task's reference answer as a non-blank string, or None."""
  answer = task.get('answer')
  if isinstance(answer, bool) or not isinstance(answer, (str, int, float)):
    return None
  return str(answer).strip() or None


def _plain(text):
  return _SPACED.sub(lambda m: ',' if m.group() == '{,}' else '', text.translate(_MINUSES))


def _canonical(text, match):
  """Sign, digits without leading zeros, and decimals without closing zeros."""
  before = text[match.start() - 1] if match.start() else ' '
  joined = before.isalnum() or before in ')]}'
  negative = (match['sign'] == '-' and not joined) != (match['inner'] == '-')
  whole = (match['whole'] or '').replace(',', '')
  fraction = (match['fraction'] or '.')[1:]
  if len(whole) + len(fraction) > MAX_DIGITS:
    return None
  shift = int((match['exponent'] or 'e0')[1:])
  digits, point = whole + fraction, len(whole) + shift
  digits = '0' * max(0, -point) + digits + '0' * max(0, point - len(digits))
  point = max(0, point)
  whole, fraction = digits[:point].lstrip('0'), digits[point:].rstrip('0')
  value = (whole or '0') + ('.' + fraction if fraction else '')
  return '-' + value if negative and value != '0' else value
