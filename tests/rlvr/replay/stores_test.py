"""Stores: uniform draws of whole groups, rows in order, ages and capacity."""

import jax
import numpy as np
import pytest

from rlvr import replay
from rlvr import testing
from rlvr.replay import stores


def written(step, sizes):
  """Groups of the given sizes, written at `step`; extras['row'] is unique."""
  num = max(sum(sizes), len(sizes))
  return testing.make_rollout(
      [[1.0] * n for n in sizes], max_tokens=2, step=np.full(num, step, np.int32),
      row=np.arange(num, dtype=np.int32) + 100 * step)


def filled(part, capacity, *steps):
  store = part.init(steps[0], capacity)
  for rollout in steps:
    store = part.add(store, rollout)
  return store


def rows(rollout):
  return np.asarray(rollout.extras['row'])[np.asarray(rollout.where)].tolist()


class TestRecentGroups:

  def test_whole_groups_each_equally_often(self):
    part = replay.recent_groups(max_age=2)
    store = filled(part, 12, written(0, [2, 3]), written(1, [1, 2]))
    assert int(stores.num_groups(store)) == 4
    whole = {(0, 1), (2, 3, 4), (100,), (101, 102)}
    keys = jax.random.split(jax.random.key(0), 400)
    where = np.asarray(jax.vmap(lambda k: part.sample(store, k, 2).where)(keys))
    counts = dict.fromkeys(whole, 0)
    row = np.asarray(store.rows.extras['row'])
    for drawn in where:
      got = set(row[drawn].tolist())
      members = [g for g in whole if set(g) <= got]
      assert len(members) == 2 and got == set(sum(members, ()))
      for g in members:
        counts[g] += 1
    for n in counts.values():  # 200 expected, sigma 10
      assert 150 < n < 250

  def test_fewer_groups_than_asked(self):
    part = replay.recent_groups()
    assert rows(part.sample(filled(part, 8, written(0, [2, 2])), jax.random.key(0), 5)) == [
        0, 1, 2, 3]

  def test_a_drawn_group_stays(self):
    part = replay.recent_groups()
    store = filled(part, 8, written(0, [2]))
    assert rows(part.sample(store, jax.random.key(0), 1)) == [0, 1]
    assert rows(part.sample(store, jax.random.key(1), 1)) == [0, 1]

  def test_a_group_that_does_not_fit_leaves_as_a_whole(self):
    part = replay.recent_groups(max_age=5)
    store = filled(part, 6, written(0, [2, 3]), written(1, [3]))
    assert rows(store.rows) == [2, 3, 4, 100, 101, 102] and int(store.dropped) == 2
    store = part.add(store, written(2, [1]))
    assert rows(store.rows) == [100, 101, 102, 200] and int(store.dropped) == 5

  def test_age(self):
    part = replay.recent_groups(max_age=2)
    store = filled(part, 12, *(written(t, [1, 1]) for t in range(4)))
    assert rows(store.rows) == [200, 201, 300, 301]  # for step 4

  def test_its_option(self):
    with pytest.raises(ValueError, match='recent_groups: max_age=0'):
      replay.recent_groups(max_age=0)


class TestFifoRows:

  def test_the_oldest_first(self):
    part = replay.fifo_rows()
    store = filled(part, 8, written(0, [2, 1]), written(1, [2]))
    for num, expected in ((0, []), (2, [0, 1]), (4, [0, 1, 2, 100]), (9, [0, 1, 2, 100, 101])):
      assert rows(part.sample(store, jax.random.key(num), num)) == expected

  def test_capacity_takes_the_oldest_row_by_row(self):
    part = replay.fifo_rows()
    store = filled(part, 4, written(0, [3]), written(1, [2]))
    assert rows(store.rows) == [1, 2, 100, 101] and int(store.dropped) == 1

  def test_its_option(self):
    with pytest.raises(ValueError, match='fifo_rows: max_age=0'):
      replay.fifo_rows(max_age=0)
