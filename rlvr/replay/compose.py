"""How stored rows come back into training: beside fresh groups, or in batches of their own.

A join replays whole groups in place of fresh ones, so a batch keeps its size. A
compensation trains, as an additional step, rows that the selection left out of
their own step. Both keep the advantage that a row got among its group, and the
log-probs of the policy that wrote it (gen_logp, in the trainer's numerics).
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import memory
from rlvr import rows as rows_lib
from rlvr import types
from rlvr.replay import stores

Array = jax.Array

JOIN, COMPENSATION = 'replay', 'compensation'  # names in state.method
SHARE = 'replay_share'  # knob: the share of a batch's groups that is replayed

_JOIN_KEY, _COMPENSATION_KEY = 2, 3  # of the splits of fold_in(state.key, step)


class Compensation(NamedTuple):
  """Rows that were left out, trained later with a probability that moves by a cosine.

  Attributes:
    store: holds them.
    first, last: the probability that a full batch of them is trained, at step 0
      and from step num_steps on.
    num_steps: T of the cosine.
  """

  store: stores.Replay
  first: float
  last: float
  num_steps: int


def stamped(rollout: types.Rollout, row_weight: Array) -> types.Rollout:
  """With what a store must know of a row: gen_logp, and its weight in extras['row_weight'].

  Raises:
    ValueError: the rows are not scored.
  """
  if rollout.old_logp is None:
    raise ValueError(
        'A stored row keeps its log-probs, which are None at this stage; set '
        'config.score_first=True.')
  return rollout.replace(
      gen_logp=rollout.old_logp, extras=rollout.extras | {'row_weight': row_weight})


def stored_fields(rollout: types.Rollout) -> types.Rollout:
  """A stamped rollout, or its shapes, without what is scored again or never read again."""
  again = ('columns', 'column_where', 'old_logp', 'ref_logp', 'entropy', 'value',
           'teacher_prompts')
  return rollout.replace(**dict.fromkeys(again))


def num_replayed(state: types.TrainState, num_prompts: int) -> Array:
  """i32[]: groups replayed in this step, min(round(share * P), those held), halves up."""
  # The small number: in f32, 0.45 * 10 is below 4.5.
  wanted = jnp.floor(state.knobs[SHARE] * num_prompts + 0.5 + 1e-4).astype(jnp.int32)
  return jnp.minimum(wanted, stores.num_groups(state.method[JOIN]))


def join(
    rollout: types.Rollout,
    state: types.TrainState,
    store: stores.Replay,
    score: Callable[[types.Rollout], types.Rollout],
) -> tuple[types.Rollout, dict[str, Array]]:
  """Fresh rows, then replayed groups in the places that are free.

  Args:
    rollout: stamped; rows of prompts that were not sampled are free.
    state: of the start of the step.
    store: its part; reads state.method['replay'].
    score: puts rows into this step and scores them under the state's weights, so
      that a replayed row's old_logp is the present policy's.

  Returns:
    B rows as given, the prompts at the store's width; and f32[] by name, how many
    rows are replayed and how many steps old they are on average.
  """
  num_rows, num_prompts = rollout.where.shape[0], rollout.prompts.id.shape[0]
  drawn = store.sample(state.method[JOIN], _key(state.key, state.step, _JOIN_KEY),
                       num_replayed(state, num_prompts))
  num_drawn = jnp.sum(drawn.where)
  ages = jnp.where(drawn.where, state.step - drawn.extras['step'], 0)
  metrics = {'replayed_rows': num_drawn.astype(jnp.float32),
             'replayed_age': jnp.sum(ages) / jnp.maximum(num_drawn, 1)}
  drawn = score(drawn)
  fresh = rows_lib.conform(rollout, drawn)
  fresh = rows_lib.pad_prompts(fresh, drawn.prompts.tokens.shape[1])
  return rows_lib.compact(rows_lib.concat(fresh, drawn), num_rows), metrics


def compensate(
    rollout: types.Rollout, state: types.TrainState, part: Compensation
) -> tuple[types.Rollout, dict[str, Array]]:
  """The rows of an additional step, none if there are too few of them or the draw says no.

  Args:
    rollout: the step's, stamped: as many rows are due as it trains itself.
    state: of the start of the step; reads state.method['compensation'].
    part: the compensation.

  Returns:
    Rows with the old_logp of their own step, each a group of its own since its
    group is no longer whole, and counts f32[] by name.
  """
  held = state.method[COMPENSATION]
  key = _key(state.key, state.step, _COMPENSATION_KEY)
  due = part.store.sample(held, key, num_due(held, rollout))
  chance = cosine(state.step, first=part.first, last=part.last, num_steps=part.num_steps)
  trained = jax.random.uniform(key) < chance
  where = due.where & trained
  rows = due.replace(
      where=where, old_logp=due.gen_logp, group=jnp.arange(where.shape[0], dtype=jnp.int32))
  count = lambda x: jnp.sum(x).astype(jnp.float32)
  return rows, {
      'compensation_rows': count(where), 'compensation_left_out': count(due.where & ~trained),
      'buffered_rows': count(held.rows.where), 'expired_rows': held.dropped.astype(jnp.float32),
      'compensation_chance': chance}


def num_due(store: stores.Store, rollout: types.Rollout) -> Array:
  """i32[]: rows of a compensation batch: those the step trains itself, or 0 if fewer are held."""
  num = jnp.sum(rollout.extras['row_weight'] > 0, dtype=jnp.int32)
  return jnp.where(jnp.sum(store.rows.where) >= num, num, 0)


def cosine(step: Array, *, first: float, last: float, num_steps: int) -> Array:
  """last + (first - last) (1 + cos(pi t / T)) / 2, f32[]: `first` at step 0, `last` from T on."""
  progress = jnp.clip(step / max(num_steps, 1), 0.0, 1.0)
  return last + (first - last) * (1 + jnp.cos(jnp.pi * progress)) / 2


def remember_fresh(store: stores.Replay, like: types.Rollout, capacity: int) -> memory.Memory:
  """Keeps each step's selected rows in state.method['replay']."""

  def write(state, rollout, metrics):
    del metrics
    selected = rollout.replace(where=rollout.where & (rollout.extras['row_weight'] > 0))
    return _set(state, JOIN, store.add(state.method[JOIN], selected))

  return _memory(JOIN, store, like, capacity, write)


def remember_left_out(store: stores.Replay, like: types.Rollout, capacity: int) -> memory.Memory:
  """Keeps each step's other rows in state.method['compensation'], less those that were due."""

  def write(state, rollout, metrics):
    del metrics
    held = state.method[COMPENSATION]
    key = _key(state.key, rollout.extras['step'][0], _COMPENSATION_KEY)  # that of the step
    due = store.sample(held, key, num_due(held, rollout))
    left_out = rollout.replace(where=rollout.where & (rollout.extras['row_weight'] == 0))
    return _set(state, COMPENSATION, store.add(stores.take_out(held, due), left_out))

  return _memory(COMPENSATION, store, like, capacity, write)


def _memory(name: str, store: Any, like: types.Rollout, capacity: int, write) -> memory.Memory:
  def init(state, num_prompts):
    del num_prompts
    return _set(state, name, store.init(like, capacity))

  return memory.Memory(init, memory.unchanged, write)


def _set(state, name, value):
  return state.replace(method=state.method | {name: value})


def _key(key, step, split):
  return jax.random.fold_in(jax.random.fold_in(key, step), split)
