"""A tool of one table, for policies of two turns: ask for a key, read its value, answer."""

import functools
import random

from rlvr import verifiers
from rlvr.envs import env

_LETTERS = 'abcdefgh'
_UNKNOWN = '=?>'


def look_up_tiny(*, letters: int = 8, num_held_out: int = 16, seed: int = 0) -> env.Env:
  """The prompt is a key, 'cb='; writing 'cb' gets '=7>' from the world; the answer is '7'.

  Keys are pairs of letters, values digits. A held-out key's value can be read but
  not known. Another query gets '=?>', the same each time. The world speaks until it
  has given the value once; what follows its last answer is the policy's.

  Args:
    letters: letters in use, 2 to 8; their square is the number of keys.
    num_held_out: keys kept out of training.
    seed: of the values and of which keys are held out.

  Returns:
    An Env with `respond` and `failed`; rollout.max_turns must be at least 2. Each task has a
    'script', the solution as (text, the world's answer or None) pairs.

  Raises:
    ValueError: letters out of range, or nothing left to train on.
  """
  if not 2 <= letters <= len(_LETTERS):
    raise ValueError(f'look_up_tiny: letters={letters} must lie in 2..{len(_LETTERS)}.')
  env.check_held_out(num_held_out, letters**2)
  generator = random.Random(seed)
  keys = [a + b for a in _LETTERS[:letters] for b in _LETTERS[:letters]]
  generator.shuffle(keys)
  drawn = [(key, str(generator.randrange(10))) for key in keys]
  num_train = len(drawn) - num_held_out
  make = functools.partial(_task, drawn)
  return env.Env(
      train=env.Tasks(num_train, functools.partial(make, 0)),
      held_out=env.Tasks(num_held_out, functools.partial(make, num_train)),
      verifier=_after_the_value, respond=respond, failed=failed,
      description=f'look-ups: {num_train} keys to train on, {num_held_out} held out')


def respond(task: env.Task, texts: tuple[str, ...]) -> str | None:
  """The value of the key asked for, '=?>' for anything else, None once it was given."""
  if any(text == task['key'] for text in texts[:-1]):
    return None
  return f'={task["answer"]}>' if texts[-1] == task['key'] else _UNKNOWN


def failed(answer: str) -> bool:
  """Whether the world did not know the query."""
  return answer == _UNKNOWN


def _after_the_value(task, text):
  return verifiers.exact(task, text.rpartition('>')[2])


def _task(drawn, first_id, index):
  key, value = drawn[first_id + index]
  return {
      'id': first_id + index, 'messages': env.messages(f'{key}='), 'answer': value, 'key': key,
      'script': ((key, f'={value}>'), (value, None)),
  }
