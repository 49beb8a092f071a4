"""Sums of three numbers, solved in a step and an answer: 2+3+4= is 5+4=9."""

import functools
import random
from collections.abc import Callable

from rlvr import verifiers
from rlvr.envs import env


def sum_chain(
    *,
    low: int = 1,
    high: int = 20,
    num_held_out: int = 64,
    seed: int = 0,
    template: str = 'Write one step, then the answer. 1+2+3=3+3=6 and {a}+{b}+{c}=',
    verifier: Callable[..., verifiers.Verdict] = verifiers.judged_steps,
) -> env.Env:
  """Triples low <= a, b, c <= high; each task has a 'solution', '5+4=9' for 2+3+4.

  Args:
    low: smallest number, at least 0.
    high: largest number.
    num_held_out: triples kept out of training.
    seed: which triples are held out, and the order of the others.
    template: the question, with '{a}', '{b}' and '{c}'. It ends in the sum and an
      equals sign where a judge is to compare the first step with the sum.
    verifier: an entry of the table VERIFIERS.

  Returns:
    An Env; triples are distinct, so none is in both parts.

  Raises:
    ValueError: an empty range, more held out than there are, or a template
      without its three numbers.
  """
  if not 0 <= low <= high:
    raise ValueError(f'low is {low} and high is {high}; 0 <= low <= high is needed.')
  if not all(name in template for name in ('{a}', '{b}', '{c}')):
    raise ValueError(f"template is {template!r}; it must hold '{{a}}', '{{b}}' and '{{c}}'.")
  width = high - low + 1
  env.check_held_out(num_held_out, width**3)
  drawn = random.Random(seed).sample(range(width**3), width**3)
  held_out, train = drawn[:num_held_out], drawn[num_held_out:]
  make = functools.partial(_task, low, width, template)
  return env.Env(
      train=env.Tasks(len(train), functools.partial(make, train, 0)),
      held_out=env.Tasks(len(held_out), functools.partial(make, held_out, len(train))),
      verifier=verifier,
      description=f'sums of three of {low}..{high}: {len(train)} to train on, '
                  f'{len(held_out)} held out')


def sum_chain_tiny(
    *,
    low: int = 0,
    high: int = 5,
    num_held_out: int = 16,
    seed: int = 0,
    verifier: Callable[..., verifiers.Verdict] = verifiers.judged_steps,
) -> env.Env:
  """`sum_chain` as a few bytes: the prompt is '2+3+4=', the solution '5+4=9'.

  Args and Returns: as `sum_chain`.
  """
  return sum_chain(low=low, high=high, num_held_out=num_held_out, seed=seed,
                   template='{a}+{b}+{c}=', verifier=verifier)


def _task(low, width, template, triples, first_id, index):
  rest, c = divmod(triples[index], width)
  a, b, c = (low + part for part in (*divmod(rest, width), c))
  question = template.replace('{a}', str(a)).replace('{b}', str(b)).replace('{c}', str(c))
  return {
      'id': first_id + index,
      'messages': env.messages(question),
      'answer': str(a + b + c),
      'solution': f'{a + b}+{c}={a + b + c}',
  }
