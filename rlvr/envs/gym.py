"""Every reasoning-gym data set as an environment, with its own generator and scorer."""

import functools

from rlvr import verifiers
from rlvr.envs import env
from rlvr.verifiers import gym_answers

_MAX_DRAWS = 20  # of one entry, until its question is not a held-out one

_SYSTEM_PROMPT = (
    'Think step by step, then give the final answer, and nothing else, between <answer> and '
    '</answer>.')


def reasoning_gym(
    *,
    dataset: str = 'chain_sum',
    size: int = 1000,
    num_held_out: int = 64,
    seed: int = 0,
    dataset_options: str = '{}',
    system_prompt: str = _SYSTEM_PROMPT,
    solved_only: bool = False,
) -> env.Env:
  """Tasks of one reasoning-gym data set, generated on demand.

  Args:
    dataset: its name in reasoning-gym; 'composite' mixes several, as
      '{"datasets": [{"name": "chain_sum"}, {"name": "gcd", "weight": 2}]}'.
    size: tasks to train on.
    num_held_out: tasks held out.
    seed: what the entries are drawn from.
    dataset_options: the data set's own options as a JSON object.
    system_prompt: goes in front of each question; '' leaves it out.
    solved_only: pay nothing for a partial score.

  Returns:
    An Env. The held-out questions are generated first, and a training entry
    that repeats one of them is drawn again from another seed.

  Raises:
    ValueError: an unknown name (with the nearest), options that the data set
      refuses, a size that is not positive, or (when a task is read) a data set
      with too few distinct questions to keep the two parts apart.

  Source: Reasoning Gym, https://github.com/open-thought/reasoning-gym.
  """
  if size < 1 or num_held_out < 0:
    raise ValueError(f'size is {size} and num_held_out {num_held_out}; at least 1 and 0, please.')
  entries = _Entries(dataset, dataset_options, size, num_held_out, seed)
  make = functools.partial(_task, entries, dataset, dataset_options, system_prompt)
  return env.Env(
      train=env.Tasks(size, functools.partial(make, 0)),
      held_out=env.Tasks(num_held_out, functools.partial(make, size)),
      verifier=functools.partial(verifiers.reasoning_gym_score, solved_only=solved_only),
      description=f'reasoning-gym {dataset}: {size} to train on, {num_held_out} held out')


class _Entries:
  """Entries by id: 0..size-1 to train on, then the held-out ones."""

  def __init__(self, name, options, size, num_held_out, seed):
    self._name, self._options, self._seed = name, options, seed
    self._size, self._total = size, size + num_held_out
    self._draws = [self._dataset(0)]
    self._held_out = {self._question(self._draws[0], i) for i in range(size, self._total)}

  def __getitem__(self, index):
    if index >= self._size:
      return self._draws[0][index]
    for draw in range(_MAX_DRAWS):
      if draw == len(self._draws):
        self._draws.append(self._dataset(draw))
      entry = self._draws[draw][index]
      if str(entry['question']) not in self._held_out:
        return entry
    raise ValueError(
        f'reasoning-gym {self._name!r} repeats its held-out questions {_MAX_DRAWS} times in a row; '
        f'lower num_held_out or widen dataset_options {self._options}.')

  def _dataset(self, draw):
    # Entries are seeded with seed + index, so the next free seed is a whole set away.
    return gym_answers.make_dataset(
        self._name, self._options, size=self._total, seed=self._seed + draw * self._total)

  def _question(self, dataset, index):
    return str(dataset[index]['question'])


def _task(entries, dataset, dataset_options, system_prompt, first_id, index):
  entry = entries[first_id + index]
  return {
      'id': first_id + index,
      'messages': env.messages(str(entry['question']), system_prompt),
      'answer': '' if entry['answer'] is None else str(entry['answer']),
      'dataset': dataset,
      'dataset_options': dataset_options,
      'entry': entry,
  }
