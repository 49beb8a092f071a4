"""Tests of rlvr.host.extra_rounds: rows bought in rounds, in fixed shapes."""

import numpy as np
import pytest

from rlvr import testing
from rlvr.host import extra_rounds
from rlvr.host import rollouts
from rlvr.verifiers import verdict


def sampled(counts, first_id, size=2):
  """counts[p] rows of prompt p in places p * size ...; a row's token is its id."""
  num_rows = len(counts) * size
  rollout = testing.make_rollout(
      [[1.0] * size] * len(counts), tokens=[[i] for i in range(num_rows)])
  used = np.arange(num_rows) % size < np.repeat(counts, size)
  ids = np.zeros(num_rows, np.int32)
  ids[used] = first_id + np.arange(used.sum())
  verdicts = [verdict.Verdict(float(i)) if w else None for i, w in zip(ids, used, strict=True)]
  rollout = rollouts.with_rewards(
      rollout.replace(where=used, tokens=ids[:, None]), verdicts)
  tasks = [{'id': int(p)} if w else None
           for p, w in zip(rollout.prompt, used, strict=True)]
  metrics = {'sampled_rows': float(used.sum()), 'status/ok': float(first_id), 'seconds/sample': 1.}
  return rollouts.Sampled(rollout, tasks, [str(i) for i in ids], verdicts, metrics)


class Shop:
  """An allocator with a list of answers, and what was bought."""

  def __init__(self, *answers):
    self.answers, self.asked, self.sold, self.shapes = list(answers), [], [], set()

  def allocate(self, rollout, left):
    self.shapes.add(rollout.where.shape)
    self.asked.append((int(np.asarray(rollout.where).sum()), left))
    return np.array(self.answers.pop(0))

  def buy(self, counts, number):
    self.sold.append((counts.tolist(), number))
    return sampled(counts, 100 * number)

  def run(self, num_extra, first=(2, 1, 0)):
    return extra_rounds.extra_rounds(
        sampled(np.array(first), 0), self.buy, self.allocate, num_extra=num_extra)


class TestExtraRounds:

  def test_rounds_until_nothing_is_asked(self):
    shop = Shop([1, 0, 0], [1, 2, 0], [0, 0, 0])
    merged = shop.run(6)
    assert shop.asked == [(3, 6), (4, 5), (7, 2)] and shop.shapes == {(12,)}
    assert shop.sold == [([1, 0, 0], 1), ([1, 2, 0], 2)]
    r = merged.rollout
    used = np.asarray(r.where)
    assert np.asarray(r.tokens)[used, 0].tolist() == [0, 1, 2, 100, 200, 201, 202]
    assert np.asarray(r.group)[used].tolist() == [0, 0, 1, 0, 0, 1, 1]
    assert np.asarray(r.columns)[used, 0].tolist() == [0, 1, 2, 100, 200, 201, 202]
    assert np.asarray(r.graded).tolist() == used.tolist()
    for row in range(12):
      assert (merged.tasks[row] is None) == (not used[row])
      if used[row]:
        assert merged.texts[row] == str(int(r.tokens[row, 0]))
        assert merged.tasks[row]['id'] == int(r.prompt[row])
        assert merged.verdicts[row].reward == float(r.columns[row, 0])
    assert (merged.metrics['extra_rows'], merged.metrics['extra_rounds']) == (4, 2)
    assert merged.metrics['sampled_rows'] == 7 and merged.metrics['seconds/sample'] == 3
    assert merged.metrics['status/ok'] == 100

  def test_nothing_is_bought(self):
    merged = Shop([0, 0, 0]).run(2)
    assert merged.rollout.where.shape == (8,) and merged.metrics['extra_rows'] == 0

  def test_what_is_left_ends_the_rounds(self):
    shop = Shop([2, 0, 0])
    assert shop.run(2).metrics['extra_rows'] == 2 and len(shop.asked) == 1

  def test_an_allocator_that_asks_for_more_than_is_left(self):
    with pytest.raises(ValueError, match=r'asks for \[2, 2, 0\] rollouts; 3 are left'):
      Shop([2, 2, 0]).run(3)
