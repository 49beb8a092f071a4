"""What an environment is: tasks to train on, tasks held out, and how they are graded."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from rlvr.verifiers import verdict

Task = Mapping[str, Any]


class Env(NamedTuple):
  """Tasks and their verifier.

  Invariants: `train[i]['id'] == i` and `held_out[j]['id'] == len(train) + j`, so
  an id is a stable key, and per-prompt state is an array of `len(train)`; no
  question is in both; an index gives the same task each time.

  Attributes:
    train: random access (`len`, `[i]`) to tasks: 'id' (int), 'messages' (a list
      of {'role', 'content'}), 'answer' (str), and what the verifier needs.
    held_out: the same, never trained on.
    verifier: (task, text) -> Verdict; picklable.
    description: one line for the log.
    respond: (task, texts) -> what the world answers to the last of the policy's turns,
      or None where the conversation is over; deterministic. None: one turn. The verifier
      gets the whole text, answers of the world included.
    failed: whether an answer of `respond` says that the turn was in error; None: none does.
  """

  train: Sequence[Task]
  held_out: Sequence[Task]
  verifier: Callable[[Task, str], verdict.Verdict]
  description: str
  respond: Callable[[Task, tuple[str, ...]], str | None] | None = None
  failed: Callable[[str], bool] | None = None


class Tasks(Sequence):
  """A sequence of tasks made on demand from an index."""

  def __init__(self, length: int, make: Callable[[int], Task]):
    """`make(i)` gives the task for 0 <= i < length; picklable where the tasks must be."""
    self._length = length
    self._make = make

  def __len__(self) -> int:
    return self._length

  def __getitem__(self, index: int) -> Task:
    if not -self._length <= index < self._length:
      raise IndexError(f'task {index} of {self._length}')
    return self._make(int(index) % self._length)


def messages(question: str, system_prompt: str = '') -> list[dict[str, str]]:
  """The conversation that asks a question; a blank system prompt is left out."""
  system = [{'role': 'system', 'content': system_prompt}] if system_prompt else []
  return [*system, {'role': 'user', 'content': question}]


def check_held_out(num_held_out: int, num_all: int) -> None:
  """Raises: ValueError where the held-out tasks leave nothing to train on, or are negative."""
  if not 0 <= num_held_out < num_all:
    raise ValueError(
        f'num_held_out is {num_held_out} of {num_all} tasks; it must be at least 0 and leave at '
        f'least one task to train on.')
