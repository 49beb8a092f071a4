"""Which tasks come next: a shuffled, endless, resumable stream of task indices.

The position is a count of prompts, not of batches or updates, so it means the
same after a change of the batch size or of the updates taken per batch.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np


class PromptStream:
  """Batches of task indices, shuffled anew each epoch, every task once an epoch.

  Prompt number k of the stream depends on (num_tasks, seed, k) alone. Epochs
  follow each other without a gap: the batch that ends one epoch begins the
  next, so a batch may be larger than the data set, and a batch over such a
  border may hold a task twice.
  """

  def __init__(self, num_tasks: int, num_prompts: int, seed: int = 0):
    """Starts at the first prompt.

    Args:
      num_tasks: size of the data set.
      num_prompts: size of a batch.
      seed: what the order is drawn from.

    Raises:
      ValueError: a size below 1.
    """
    for name, value in (('num_tasks', num_tasks), ('num_prompts', num_prompts)):
      if value < 1:
        raise ValueError(f'{name} is {value}; it must be at least 1.')
    import grain  # imports jax, which grading workers and notebooks on data do not need

    self._num_tasks = num_tasks
    self._num_prompts = num_prompts
    self._seed = seed
    self._order = grain.MapDataset.range(num_tasks).shuffle(seed=seed).repeat()
    self.num_taken = 0  # prompts handed out since the start of the run

  @property
  def epoch(self) -> float:
    """Epochs handed out, with the fraction of the current one."""
    return self.num_taken / self._num_tasks

  def __iter__(self) -> Iterator[np.ndarray]:
    return self

  def __next__(self) -> np.ndarray:
    """The next batch, i32[num_prompts], each in [0, num_tasks)."""
    return self.take(self._num_prompts)

  def take(self, num: int) -> np.ndarray:
    """The next `num` task indices, i32[num]; for rounds that ask for more prompts."""
    positions = range(self.num_taken, self.num_taken + num)
    self.num_taken += num
    return np.array([self._order[k] for k in positions], np.int32)

  def get_state(self) -> dict[str, int]:
    """The position and what it belongs to, as JSON numbers."""
    return {'num_taken': self.num_taken, 'num_tasks': self._num_tasks, 'seed': self._seed}

  def set_state(self, state: Mapping[str, Any]) -> None:
    """Continues from a saved position; the batch size may differ.

    Args:
      state: what `get_state` returned.

    Raises:
      ValueError: a state of another data set size or seed, whose position means
        nothing here.
    """
    for name, here in (('num_tasks', self._num_tasks), ('seed', self._seed)):
      if state[name] != here:
        raise ValueError(
            f'The saved stream has {name} {state[name]} and this one {here}; continue with '
            f'{name} {state[name]}, or start a new run.')
    self.num_taken = int(state['num_taken'])
