"""What a method remembers between steps: moving anchors, online estimates, per-prompt state.

A memory keeps its arrays in the TrainState, under `method` or `anchors` at a
name of its own, so that a checkpoint holds them and a resumed run goes on with
them. `read` runs inside `prepare`, before scores and rewards; `write` runs once
a step, after its last update.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax

from rlvr import types

Array = jax.Array


class Memory(NamedTuple):
  """Pure functions; a part of MEMORIES (memories.py) is a factory that returns one.

  Attributes:
    init: (state, num_prompts) -> state, with the memory's arrays added; no leaf
      shares a buffer with another (copy the params).
    read: (rollout, state) -> rollout, with what the method's parts read in
      extras, each with a leading row axis.
    write: (state, rollout, metrics) -> state, after the step: `rollout` has its
      rewards and advantages, `metrics` f32[] by name are the last update's.
  """

  init: Callable[[types.TrainState, int], types.TrainState]
  read: Callable[[types.Rollout, types.TrainState], types.Rollout]
  write: Callable[[types.TrainState, types.Rollout, dict[str, Array]], types.TrainState]


def make_finish(memories: tuple[Memory, ...]) -> Callable[..., types.TrainState]:
  """finish(state, rollout, metrics) -> state of the next step: the counter and all writes."""

  def finish(state, rollout, metrics):
    state = state.replace(step=state.step + 1)
    for memory in memories:
      state = memory.write(state, rollout, metrics)
    return state

  return finish


def unchanged(rollout: types.Rollout, state: types.TrainState) -> types.Rollout:
  """The `read` of a memory that only writes."""
  del state
  return rollout
