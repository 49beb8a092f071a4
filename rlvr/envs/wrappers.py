"""Environments made of another one: graded otherwise, asked otherwise, two questions in one."""

import functools

from rlvr import verifiers
from rlvr.envs import env
from rlvr.envs import sums


def regraded(*, base=sums.addition, verifier=verifiers.exact) -> env.Env:
  """The tasks of `base`, graded by another verifier: for several rewards, say.

  Args:
    base: an environment.
    verifier: needs no more of a task than `base` puts there.
  """
  inner = base()
  return inner._replace(
      verifier=verifier,
      description=f'{inner.description}, graded by {_name(verifier)}')


def with_strategies(
    *,
    base=sums.addition,
    strategies: tuple = (' Answer directly.', ' Work it out step by step, then answer.'),
) -> env.Env:
  """The tasks of `base`; each training prompt carries the instruction of one strategy.

  Task i gets strategies[i % K], appended to its last message, and 'strategy': i % K,
  so that all responses to a prompt are sampled under one instruction. Held-out
  tasks are asked without one, as the policy will be.

  Args:
    base: an environment.
    strategies: K instructions, at least one, each with what parts it from the
      question; '' asks as it is.

  Raises:
    ValueError: no strategies.

  Source: ARC (arXiv 2608.13622), strategy-conditioned sampling; the assignment by
  turns is ours.
  """
  if not strategies:
    raise ValueError('with_strategies: strategies=() needs at least one instruction.')
  inner = base()
  make = functools.partial(_instructed, inner.train, tuple(strategies))
  return inner._replace(
      train=env.Tasks(len(inner.train), make),
      description=f'{inner.description}, under {len(strategies)} strategies')


def two_sums(
    *,
    low: int = 0,
    high: int = 9,
    num_held_out: int = 16,
    seed: int = 0,
    template: str = '{first};{second}=',
) -> env.Env:
  """Two sums in one prompt, '3+4;2+5=', answered '7;7', with a reward for each.

  Args:
    low, high, num_held_out, seed: of the first sum, see `addition`. The second is
      another sum of the same part.
    template: the prompt, with '{first}' and '{second}', each a sum like '3+4'.

  Returns:
    An Env graded by `answer_parts`: columns 'part_1' and 'part_2'.

  Raises:
    ValueError: a template without '{first}' and '{second}', or as `addition`.
  """
  for name in ('{first}', '{second}'):
    if name not in template:
      raise ValueError(f'template is {template!r}; it must hold {name!r}.')
  one = sums.addition(
      low=low, high=high, num_held_out=num_held_out, seed=seed, template='{a}+{b}')
  pair = lambda tasks: env.Tasks(len(tasks), functools.partial(_pair, tasks, template))
  return env.Env(
      train=pair(one.train), held_out=pair(one.held_out),
      verifier=functools.partial(verifiers.answer_parts),
      description=f'two sums of {low}..{high}: {len(one.train)} to train on, '
                  f'{len(one.held_out)} held out')


def _instructed(tasks, strategies, index):
  task = tasks[index]
  which = index % len(strategies)
  *before, last = task['messages']
  last = dict(last, content=last['content'] + strategies[which])
  return {**task, 'messages': [*before, last], 'strategy': which}


def _pair(tasks, template, index):
  first, second = tasks[index], tasks[(7 * index + 1) % len(tasks)]
  question = template.replace('{first}', first['messages'][-1]['content']).replace(
      '{second}', second['messages'][-1]['content'])
  return {
      'id': first['id'],
      'messages': env.messages(question),
      'answer': f'{first["answer"]};{second["answer"]}',
      'level': first['level'] + second['level'],
  }


def _name(verifier):
  return getattr(verifier, 'func', verifier).__name__
