"""Several turns: the policy writes, the environment answers, the policy goes on in the same row.

A row is prompt, turn, observation, turn, ... What was sampled is never decoded and
encoded again: only the ids of the observation are appended, valid and with mask 0,
and the sampler continues the row from its own tokens. Text is for the environment's
eyes alone.
"""

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import types
from rlvr.envs import env as env_lib
from rlvr.host import influence_graph


class Conversation:
  """A sampler of several turns, called like the one it wraps (experiments/sampling.py).

  After a turn that ended with a stop token, `env.respond(task, texts)` is asked;
  its text is appended and the row runs again. A row is over when the answer is
  None, its tokens are spent, or it has had `max_turns` turns. An observation that
  leaves no room for a token of the next turn is not appended: the row ends as BUDGET.

  The rollout gets `turn` i32[B, T], the turn of each token, an observation's being
  that of the turn it answers (0 off `valid`), and extras `state_id` and `action_id`
  i32[B, max_turns] (see `signatures`) and `action_uses` i32[B, max_turns, 4] (see
  influence_graph.py).
  """

  def __init__(self, sampler: Any, env: env_lib.Env, tokenizer: Any, max_turns: int):
    """`sampler` also has resume(params, rollout, key, version) -> (Rollout, Stats)."""
    self._sampler = sampler
    self._env = env
    self._tokenizer = tokenizer
    self._max_turns = max_turns
    self._annotate = functools.partial(influence_graph.by_rules, failed=env.failed)

  def __call__(self, params, prompts, key, version, greedy, counts=None):
    rollout, stats = self._sampler(params, prompts, key, version, greedy, counts)
    rollout = _unplaced(rollout)
    tasks = [self._task(int(i)) for i in np.asarray(prompts.id)]
    prompt = np.asarray(rollout.prompt)
    said: list[list[str]] = [[] for _ in prompt]
    heard: list[list[str]] = [[] for _ in prompt]
    turn = np.zeros(rollout.tokens.shape, np.int32)
    start = np.zeros(len(prompt), np.int32)  # where a row's present turn begins
    running = np.asarray(rollout.where)
    for number in range(self._max_turns):
      tokens, valid, stop = jax.device_get((rollout.tokens, rollout.valid, rollout.stop))
      for row in np.flatnonzero(running):
        end = int(valid[row].sum())
        turn[row, start[row]:end] = number
        said[row].append(self._tokenizer.decode([int(i) for i in tokens[row, start[row]:end]]))
      running = running & (stop == types.STOP_TOKEN)
      if number + 1 == self._max_turns:
        break
      answers = [self._env.respond(tasks[prompt[row]], tuple(said[row])) if running[row] else None
                 for row in range(len(prompt))]
      for texts, text in zip(heard, answers, strict=True):
        if text is not None:
          texts.append(text)
      seen = [None if text is None else self._tokenizer.encode(text) for text in answers]
      rollout, running = append(rollout, seen, version)
      if not running.any():
        break
      first = start
      start = np.asarray(types.lengths(rollout))
      for row in np.flatnonzero(running):
        turn[row, first[row]:start[row]] = number
      # The same key: a token's noise depends on its row and place alone.
      rollout, more = self._sampler.resume(params, rollout, key, version)
      rollout = _unplaced(rollout)
      stats = jax.tree.map(jnp.add, stats, more)
    state, action = signatures(said, self._max_turns)
    uses = influence_graph.batch_counts(
        self._annotate, [tasks[index] for index in prompt], said, heard, self._max_turns)
    extras = {'state_id': jnp.asarray(state), 'action_id': jnp.asarray(action),
              'action_uses': jnp.asarray(uses)}
    return rollout.replace(turn=jnp.asarray(turn), extras=rollout.extras | extras), stats

  def _task(self, index):
    train = self._env.train
    return train[index] if index < len(train) else self._env.held_out[index - len(train)]


def _unplaced(rollout):
  """The rollout without the mesh that the params gave it, which would trace resume again."""
  return jax.tree.map(jnp.asarray, jax.device_get(rollout))


def append(
    rollout: types.Rollout, observations: Sequence[Sequence[int] | None], version: Any
) -> tuple[types.Rollout, np.ndarray]:
  """Puts observations behind the rows' tokens and sets these rows to RUNNING.

  Args:
    rollout: B rows; no id in it is changed.
    observations: token ids a row, possibly none of them; None leaves the row as it is.
    version: recorded for the new tokens.

  Returns:
    The rollout, and bool[B], the rows that run again. New tokens are valid, have
    mask 0 and log-probability 0. Where they and one more do not fit, the row
    keeps its tokens and ends as BUDGET.
  """
  get = lambda x: np.array(jax.device_get(x))
  tokens, valid, versions, stop = map(
      get, (rollout.tokens, rollout.valid, rollout.version, rollout.stop))
  again = np.zeros(len(stop), bool)
  for row, ids in enumerate(observations):
    if ids is None:
      continue
    start = int(valid[row].sum())
    end = start + len(ids)
    if end >= tokens.shape[1]:
      stop[row] = types.BUDGET
      continue
    tokens[row, start:end], valid[row, start:end], versions[row, start:end] = ids, True, version
    stop[row], again[row] = types.RUNNING, True
  put = jnp.asarray
  return rollout.replace(
      tokens=put(tokens), valid=put(valid), version=put(versions), stop=put(stop)), again


def signatures(said: Sequence[Sequence[str]], max_turns: int) -> tuple[np.ndarray, np.ndarray]:
  """Ids of what was done where: i32[B, max_turns] states and actions, -1 past the last turn.

  An action is the turn's text, case and spaces aside; a state is the sequence of
  actions before it (a prefix tree). Ids are CRC-32 checksums of 31 bits, so that
  rows sampled at different times agree; two keys of one prompt collide once in 2^31.
  """
  state = np.full((len(said), max_turns), -1, np.int32)
  action = np.full_like(state, -1)
  number = lambda key: zlib.crc32(repr(key).encode()) & 0x7FFFFFFF
  for row, texts in enumerate(said):
    keys = [''.join(text.lower().split()) for text in texts]
    for step, key in enumerate(keys):
      state[row, step], action[row, step] = number(keys[:step]), number(key)
  return state, action
