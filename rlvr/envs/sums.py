"""Sums of two numbers, in words or short enough for a byte-level toy policy."""

import functools
import random

from rlvr import verifiers
from rlvr.envs import env

_MAX_LISTED = 100_000  # pairs kept in memory where num_train does not say how many


def addition(
    *,
    low: int = 1,
    high: int = 20,
    num_held_out: int = 64,
    num_train: int | None = None,
    seed: int = 0,
    template: str = 'What is {a} + {b}? Answer with just the number.',
) -> env.Env:
  """Ordered pairs low <= a, b <= high, graded by the last number in the text.

  Each task has a 'level': the number of carries when a and b are added by hand
  (7 + 5 has 1, 95 + 7 has 2, 12 + 5 has 0), so that a metric can be split by it.

  Args:
    low: smallest number, at least 0.
    high: largest number.
    num_held_out: pairs kept out of training.
    num_train: pairs to train on; None takes all that are left, up to 100 000.
    seed: which pairs are held out, and the order of the others.
    template: the question, with '{a}' and '{b}'.

  Returns:
    An Env; pairs are distinct, so no pair is in both parts ((3, 4) and (4, 3)
    are two pairs).

  Raises:
    ValueError: an empty range, more tasks than pairs, or a template without
      '{a}' and '{b}'.
  """
  if not 0 <= low <= high:
    raise ValueError(f'low is {low} and high is {high}; 0 <= low <= high is needed.')
  if '{a}' not in template or '{b}' not in template:
    raise ValueError(f"template is {template!r}; it must hold '{{a}}' and '{{b}}'.")
  width = high - low + 1
  env.check_held_out(num_held_out, width * width)
  if num_train is None:
    num_train = min(width * width - num_held_out, _MAX_LISTED)
  if not 0 < num_train <= width * width - num_held_out:
    raise ValueError(
        f'num_train is {num_train}; between 1 and {width * width - num_held_out} pairs are left '
        f'by low={low}, high={high}, num_held_out={num_held_out}.')
  # Held out first, so that they stay the same when num_train changes.
  generator = random.Random(seed)
  held_out = generator.sample(range(width * width), num_held_out)
  apart = set(held_out)
  drawn = generator.sample(range(width * width), num_train + num_held_out)
  train = [pair for pair in drawn if pair not in apart][:num_train]
  make = functools.partial(_task, low, width, template)
  return env.Env(
      train=env.Tasks(len(train), functools.partial(make, train, 0)),
      held_out=env.Tasks(len(held_out), functools.partial(make, held_out, len(train))),
      verifier=functools.partial(verifiers.last_number),
      description=f'addition of {low}..{high}: {len(train)} to train on, {len(held_out)} held out')


def addition_tiny(
    *, low: int = 0, high: int = 9, num_held_out: int = 16, seed: int = 0) -> env.Env:
  """`addition` as a few bytes: the prompt is '3+4=', the answer '7'.

  Args:
    low: smallest number.
    high: largest number.
    num_held_out: pairs kept out of training.
    seed: which pairs are held out.

  Returns:
    As `addition`.
  """
  return addition(low=low, high=high, num_held_out=num_held_out, seed=seed, template='{a}+{b}=')


def carries(a: int, b: int) -> int:
  """How often a digit is carried when a and b are added by hand, in base ten."""
  count = carry = 0
  while a or b:
    carry = int(a % 10 + b % 10 + carry > 9)
    count, a, b = count + carry, a // 10, b // 10
  return count


def _task(low, width, template, pairs, first_id, index):
  a, b = (low + part for part in divmod(pairs[index], width))
  return {
      'id': first_id + index,
      'messages': env.messages(template.replace('{a}', str(a)).replace('{b}', str(b))),
      'answer': str(a + b),
      'level': carries(a, b),
  }
