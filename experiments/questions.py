"""What is asked of an environment before a run starts."""

from collections.abc import Sequence
from typing import Any

import ml_collections

from rlvr.envs import env as env_lib
from rlvr.host import rollouts
from rlvr.host import verify_pool
from rlvr.verifiers import verdict


def first(tasks: Sequence[Any], most: int) -> list[Any]:
  """The first tasks, at most `most`."""
  return [tasks[i] for i in range(min(len(tasks), most))]


def verdict_names(
    c: ml_collections.ConfigDict, env: env_lib.Env
) -> tuple[tuple[str, ...], tuple[str, ...]]:
  """Columns and offsets that the environment's verifier names, asked in a process of its own.

  Raises:
    ValueError: none of the first tasks has a reference that the verifier can read.
  """
  with verify_pool.VerifyPool(env.verifier, num_workers=1, warm_task=env.train[0],
                              deadline_seconds=c.verify.deadline_seconds) as pool:
    tasks = first(env.train, 4)
    verdicts = pool.grade(tasks, [str(task.get('answer', '')) for task in tasks])
    if all(one.status == verdict.BAD_GOLD for one in verdicts):
      raise ValueError(
          f'config.env: the verifier can read the reference of none of the first {len(tasks)} '
          f'tasks (status {verdict.BAD_GOLD}); name another in the config argument, as in '
          '":env.verifier=NAME", or give the rows what it reads.')
    return rollouts.column_names(pool, tasks[0]), rollouts.offset_names(pool, tasks[0])
