"""Stores of rows that a later step trains again: pure functions over a rollout's pytree.

A store is a rollout of fixed size, oldest rows first, each row's prompt at the
row's own place, so it lies in a checkpoint like any other state. The step that
writes is extras['step'] of the rollout that is added; rows are readable from the
next step on, and what is too old for that step leaves when it is written.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import rows as rows_lib
from rlvr import spec
from rlvr import types

Array = jax.Array


class Store(NamedTuple):
  """What a store holds.

  Attributes:
    rows: where marks the rows held, extras['step'] is the step that wrote them.
    dropped: i32[], rows that age or capacity removed since the store was empty.
  """

  rows: types.Rollout
  dropped: Array


class Replay(NamedTuple):
  """Pure functions; a part of REPLAY is a factory that returns one.

  Attributes:
    init: (like, capacity) -> an empty store of `capacity` rows that keeps the
      fields of the rollout `like`, its prompts at the width of like's.
    add: (store, rollout) -> store with the rows of `rollout.where`; reads
      extras['step'], which every row has, used or not. The oldest leave if there
      is no room.
    sample: (store, key, num) -> the store's rows, `where` True on those drawn,
      source REPLAYED. `num` may be traced; an empty store gives all False. The
      store is left as it is; `take_out` removes what was drawn.
  """

  init: Callable[[types.Rollout, int], Store]
  add: Callable[[Store, types.Rollout], Store]
  sample: Callable[[Store, Array, Array | int], types.Rollout]


def take_out(store: Store, drawn: types.Rollout) -> Store:
  """The store without the rows of a sample."""
  where = store.rows.where & ~drawn.where
  return store._replace(rows=store.rows.replace(where=where))


def num_groups(store: Store) -> Array:
  """i32[]: the groups that have a row in the store."""
  where = store.rows.where
  return jnp.sum(where & (groups.index(store.rows.group, where) == 0))


def no_store() -> Replay | None:
  """Nothing is kept."""
  return None


def recent_groups(*, max_age: int = 2) -> Replay:
  """Whole groups of the last `max_age` steps, drawn uniformly without replacement.

  `sample` draws min(num, groups held) groups, each with all of its rows; a drawn
  group stays and may be drawn again. A group that does not fit in the capacity
  as a whole leaves as a whole.

  Args:
    max_age: N, steps; a row written at step t is drawn up to step t + N.

  Raises:
    ValueError: max_age is below 1.

  Source: Squeeze the Soaked Sponge (arXiv 2507.06892), ReMix. Provenance: a
  detailed third-party note read; reconstructed.
  """
  _check_age('recent_groups', max_age)

  def sample(store, key, num):
    where, group = store.rows.where, store.rows.group
    first = where & (groups.index(group, where) == 0)
    draw = jnp.where(first, jax.random.uniform(key, where.shape), 2.0)
    rank = jnp.argsort(jnp.argsort(draw))
    drawn = where & (groups.sum(first & (rank < num), group, where) > 0)
    return _replayed(store, drawn)

  return Replay(_init, lambda store, rollout: _add(store, rollout, max_age, whole=True), sample)


def fifo_rows(*, max_age: int = 4) -> Replay:
  """Rows in the order in which they came; the oldest are drawn first.

  `sample` draws the min(num, rows held) oldest rows, whatever `key`.

  Args:
    max_age: steps; a row written at step t is drawn up to step t + max_age.

  Raises:
    ValueError: max_age is below 1.

  Source: RoRecomp (arXiv 2509.25958), its compensation buffer. Provenance:
  abstract only, reconstructed.
  """
  _check_age('fifo_rows', max_age)

  def sample(store, key, num):
    del key
    where = store.rows.where
    return _replayed(store, where & (jnp.cumsum(where) <= num))

  return Replay(_init, lambda store, rollout: _add(store, rollout, max_age, whole=False), sample)


def _check_age(name, max_age):
  if max_age < 1:
    raise ValueError(f'{name}: max_age={max_age} must be at least 1 step.')


def _init(like, capacity):
  blank = lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype)
  fields = {**types.row_leaves(like), 'prompts': like.prompts}
  return Store(like.replace(**jax.tree.map(blank, fields)), jnp.zeros((), jnp.int32))


def _add(store, rollout, max_age, *, whole):
  """Old and new rows, without those that the next step may not read, at most capacity."""
  capacity, width = store.rows.prompts.tokens.shape
  new = rows_lib.pad_prompts(rows_lib.conform(rollout, store.rows), width)
  both = rows_lib.concat(store.rows, new)
  next_step = rollout.extras['step'][0] + 1
  young = both.where & (next_step - both.extras['step'] <= max_age)
  kept = young & (jnp.cumsum(young[::-1])[::-1] <= capacity)
  if whole:
    kept &= groups.min(kept, both.group, young) > 0
  rows = rows_lib.own_prompts(rows_lib.compact(both.replace(where=kept), capacity))
  return Store(rows, store.dropped + jnp.sum(both.where & ~kept, dtype=jnp.int32))


def _replayed(store, drawn):
  source = jnp.full(drawn.shape, types.REPLAYED, jnp.int32)
  return store.rows.replace(where=drawn, source=source)


REPLAY = spec.make_table(no_store, recent_groups, fifo_rows)
