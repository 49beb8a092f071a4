"""What a person watching a run sees: one line of progress, and the first example."""

import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable
from collections.abc import Mapping
from typing import TextIO

# Metric, label, format: the order on the line. A metric that a run lacks is left out.
_COLUMNS = (
    ('reward', 'reward', '{:.3f}'),
    ('eval/accuracy', 'eval', '{:.3f}'),
    ('length', 'length', '{:.0f}'),
    ('entropy', 'entropy', '{:.2f}'),
    ('mismatch_kl', 'mismatch kl', '{:.1e}'),
    ('tokens_per_second', 'tok/s', '{:,.0f}'),
)
_DECAY = 0.9
_CLEAR = '\r\x1b[K'  # to column 0, then erase to the end of the line
# Format characters can reorder text (bidi) or hide it; surrogates cannot be encoded.
_UNPRINTABLE = frozenset({'Cc', 'Cf', 'Cs', 'Co', 'Cn', 'Zl', 'Zp'})


class Progress:
  """A line rewritten in place on a terminal, one line a step elsewhere.

  Args:
    num_steps: the run's last step.
    stream: where to write; standard error by default, so that a pipe of the
      program's output stays clean.
    clock: seconds, for tests.

  The time left is the remaining steps times a moving average of the step time.
  The time before the first update is compilation and is not in the average.
  """

  def __init__(
      self,
      num_steps: int,
      *,
      stream: TextIO | None = None,
      clock: Callable[[], float] = time.monotonic,
  ):
    self._num_steps = num_steps
    self._stream = sys.stderr if stream is None else stream
    self._clock = clock
    self._last: tuple[int, float] | None = None  # step, time
    self._sum = self._weight = 0.0  # bias-corrected average of seconds a step
    self._open = False  # a line without its newline is on the terminal

  def update(self, step: int, metrics: Mapping[str, float]) -> None:
    """Shows a step that has ended; steps may be skipped between calls."""
    now = self._clock()
    if self._last is not None and step > self._last[0]:
      seconds = (now - self._last[1]) / (step - self._last[0])
      self._sum = _DECAY * self._sum + (1 - _DECAY) * seconds
      self._weight = _DECAY * self._weight + (1 - _DECAY)
    self._last = (step, now)
    text = format_line(step, self._num_steps, metrics, self.seconds_left())
    if self._stream.isatty():
      # A full line would wrap, and \r would then return only to its second half.
      width = shutil.get_terminal_size().columns - 1
      self._stream.write(_CLEAR + text[:width])
      self._open = True
    else:
      self._stream.write(text + '\n')
    self._stream.flush()

  def seconds_left(self) -> float | None:
    """Estimated seconds to the last step; None before the second update."""
    if self._last is None or not self._weight:
      return None
    return self._sum / self._weight * max(self._num_steps - self._last[0], 0)

  def note(self, text: str) -> None:
    """Writes a block of text above the line."""
    self._stream.write((_CLEAR if self._open else '') + text + '\n')
    self._stream.flush()
    self._open = False

  def close(self) -> None:
    """Ends the line, so that what follows starts on its own."""
    if self._open:
      self._stream.write('\n')
      self._stream.flush()
      self._open = False


def format_line(
    step: int, num_steps: int, metrics: Mapping[str, float], seconds_left: float | None) -> str:
  """'step  12/200  3m20s left  reward 0.531  length 84 ...': a narrow terminal cuts the end."""
  width = len(str(num_steps))
  parts = [f'step {step:>{width}}/{num_steps}']
  if seconds_left is not None:
    parts.append(f'{duration(seconds_left)} left')
  parts += [
      f'{label} {form.format(float(metrics[name]))}'
      for name, label, form in _COLUMNS if name in metrics]
  return '  '.join(parts)


def duration(seconds: float) -> str:
  """'42s', '3m20s', '2h05m', '3d04h'."""
  seconds = round(seconds)
  for unit, size, small, small_size in (
      ('d', 86400, 'h', 3600), ('h', 3600, 'm', 60), ('m', 60, 's', 1)):
    if seconds >= size:
      return f'{seconds // size}{unit}{seconds % size // small_size:02d}{small}'
  return f'{seconds}s'


def first_example(
    prompt: str,
    completion: str,
    answer: str | None,
    reward: float,
    *,
    gold: str | None = None,
    status: str | None = None,
    width: int = 88,
) -> str:
  """A readable block of one graded response: is the task what one thinks it is?

  Args:
    prompt: the text the policy saw, chat template included.
    completion: what it wrote.
    answer: what the verifier took from the completion; None if it found none.
    reward: what the verifier gave.
    gold: the expected answer, where the task has one.
    status: the verifier's word for what happened.
    width: columns.

  Returns:
    Lines joined by newlines; control characters are written as escapes.
  """
  verdict = [f'answer  {"(none found)" if answer is None else printable(answer)}']
  if gold is not None:
    verdict.append(f'gold    {printable(gold)}')
  verdict.append(f'reward  {reward:g}' + (f'  ({printable(status)})' if status else ''))
  return '\n'.join([
      rule('prompt', width=width), wrap(prompt, width=width),
      rule('completion', width=width), wrap(completion, width=width),
      rule('verdict', width=width), *verdict, '-' * width])


def rule(title: str, *, width: int = 88) -> str:
  """'-- title ------': a heading line."""
  return f'-- {title} '.ljust(width, '-')


def wrap(text: str, *, width: int = 88) -> str:
  """Text broken to width, its own line breaks kept, control characters escaped."""
  if not text:
    return '(empty)'
  lines = printable(text).split('\n')
  return '\n'.join(
      part for line in lines
      for part in (textwrap.wrap(line, width, drop_whitespace=False) or ['']))


def printable(text: str) -> str:
  """Text that cannot move the cursor, colour the terminal or reorder a line.

  Every control, format, surrogate and unassigned character except the newline
  becomes its Python escape; a tab becomes two spaces.
  """
  return ''.join(
      character if character == '\n' or unicodedata.category(character) not in _UNPRINTABLE
      else '  ' if character == '\t'
      else character.encode('unicode_escape').decode()
      for character in text)
