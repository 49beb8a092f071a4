"""Tests of rlvr.host.dynamic_sampling."""

import itertools

import jax
import numpy as np
import pytest

from rlvr import testing
from rlvr.host import dynamic_sampling
from rlvr.host import rollouts
from rlvr.verifiers import verdict

_GONE = None  # an outcome that no grader saw


class Stream:
  """Batches of groups with given outcomes; every field of a row says which row it is."""

  def __init__(self, *batches, widths=itertools.repeat(3)):
    self._batches = batches
    self._widths = iter(widths)
    self.num_drawn = 0
    self.numbers = []

  def draw(self, num):
    tasks = [{'id': self.num_drawn + i} for i in range(num)]
    self.num_drawn += num
    return tasks

  def one_round(self, tasks, number):
    self.numbers.append(number)
    outcomes = self._batches[number % len(self._batches)]
    width, flat = next(self._widths), [r for group in outcomes for r in group]
    owner = [t['id'] for t, group in zip(tasks, outcomes, strict=True) for _ in group]
    row_ids = [10 * t['id'] + i for t, group in zip(tasks, outcomes, strict=True)
               for i, _ in enumerate(group)]
    rollout = testing.make_rollout(outcomes, tokens=[[i] for i in row_ids], padding=0)
    prompts = rollout.prompts.replace(
        tokens=np.tile([[t['id']] for t in tasks], width).astype(np.int32),
        length=np.full(len(tasks), width, np.int32),
        id=np.array([t['id'] for t in tasks], np.int32))
    verdicts = [verdict.failed(verdict.OUTAGE) if r is _GONE else verdict.Verdict(float(r))
                for r in flat]
    rollout = rollouts.with_rewards(rollout.replace(
        prompts=prompts, rollout_logp=np.array(row_ids, np.float32)[:, None]), verdicts)
    metrics = {'seconds/sample': 1.0, 'sampled_tokens': float(len(flat)), 'status/ok': number / 2}
    return rollouts.Sampled(rollout, [{'id': i} for i in owner], [str(i) for i in row_ids],
                            verdicts, metrics)

  def run(self, num_prompts, max_rounds):
    return dynamic_sampling.rounds(
        self.draw, self.one_round, num_prompts=num_prompts, max_rounds=max_rounds)


# The stream of the paper's trace: outcome of each response, groups of two.
_TRACE = ([(1, 1), (0, 1)], [(0, 0), (1, 0)], [(0, 1), (1, 1)])
_COUNTS = ('rounds', 'groups_drawn', 'groups_kept', 'groups_dropped')


def _counts(sampled):
  return tuple(int(sampled.metrics[name]) for name in _COUNTS)


class TestRounds:

  def test_the_trace_of_the_paper(self):
    """Prompts 1 and 3 are kept, after 2 batches and 4 groups."""
    stream = Stream(*_TRACE)
    sampled = stream.run(2, 8)
    np.testing.assert_array_equal(sampled.rollout.prompts.id, [1, 3])
    assert _counts(sampled) == (2, 4, 2, 2)
    assert stream.numbers == [0, 1] and stream.num_drawn == 4

  def test_the_bound_on_rounds_leaves_places_empty(self):
    stream = Stream([(1, 1), (0, 1), (1, 1)], [(0, 0), (1, 0), (0, 0)])
    sampled = stream.run(3, 2)
    assert _counts(sampled) == (2, 6, 2, 4)
    np.testing.assert_array_equal(sampled.rollout.where, [True] * 4 + [False] * 2)
    np.testing.assert_array_equal(sampled.rollout.prompts.id[:2], [1, 4])
    assert (np.asarray(sampled.rollout.prompts.length) >= 1).all()

  def test_a_dead_data_set_stops_at_the_bound(self):
    stream = Stream([(1, 1), (0, 0)])
    sampled = stream.run(2, 5)
    assert stream.numbers == [0, 1, 2, 3, 4]
    assert _counts(sampled) == (5, 10, 0, 10)
    assert not np.asarray(sampled.rollout.where).any()
    assert sampled.tasks == [None] * 4 and sampled.verdicts == [None] * 4

  def test_rows_tokens_rewards_and_texts_stay_together(self):
    """Fault 16: one index is applied to every field."""
    sampled = Stream(*_TRACE).run(2, 8)
    r, rows = sampled.rollout, [10, 11, 30, 31]
    np.testing.assert_array_equal(r.tokens[:, 0], rows)
    np.testing.assert_array_equal(r.rollout_logp[:, 0], rows)
    np.testing.assert_array_equal(r.columns[:, 0], [0, 1, 1, 0])
    np.testing.assert_array_equal(r.prompt, [0, 0, 1, 1])
    np.testing.assert_array_equal(r.group, [0, 0, 1, 1])
    assert sampled.texts == [str(i) for i in rows]
    assert [t['id'] for t in sampled.tasks] == [1, 1, 3, 3]
    assert [v.reward for v in sampled.verdicts] == [0, 1, 1, 0]

  def test_a_surplus_is_dropped_in_arrival_order_and_counted(self):
    sampled = Stream([(0, 1), (1, 1)], [(1, 0), (0, 1)]).run(2, 8)
    np.testing.assert_array_equal(sampled.rollout.prompts.id, [0, 2])
    assert _counts(sampled) == (2, 4, 2, 2)

  def test_one_round_keeps_everything_and_the_very_rollout(self):
    stream = Stream([(1, 1), (0, 0)])
    sampled = stream.run(2, 1)
    np.testing.assert_array_equal(sampled.rollout.prompts.id, [0, 1])
    assert np.asarray(sampled.rollout.where).all() and 'rounds' not in sampled.metrics

  def test_ungraded_rows_decide_nothing(self):
    """A group whose graded outcomes agree is dead, whatever was not graded."""
    stream = Stream([(1, _GONE), (_GONE, _GONE)], [(0, 1), (1, _GONE)])
    sampled = stream.run(2, 2)
    np.testing.assert_array_equal(sampled.rollout.prompts.id[:1], [2])
    assert _counts(sampled) == (2, 4, 1, 3)

  def test_buckets_of_different_rounds_meet_in_the_wider_one(self):
    sampled = Stream(*_TRACE, widths=[3, 5]).run(2, 8)
    np.testing.assert_array_equal(
        sampled.rollout.prompts.tokens, [[1, 1, 1, 0, 0], [3, 3, 3, 3, 3]])
    np.testing.assert_array_equal(sampled.rollout.prompts.length, [3, 5])

  def test_the_same_structure_as_a_round(self):
    stream = Stream(*_TRACE)
    one = stream.one_round(stream.draw(2), 0).rollout
    merged = Stream(*_TRACE).run(2, 8).rollout
    assert jax.tree.map(lambda x: (x.shape, x.dtype), merged) == jax.tree.map(
        lambda x: (x.shape, x.dtype), one)

  def test_seconds_and_tokens_add_and_shares_average(self):
    metrics = Stream(*_TRACE).run(2, 8).metrics
    assert (metrics['seconds/sample'], metrics['sampled_tokens']) == (2, 8)
    assert metrics['status/ok'] == .25

  @pytest.mark.parametrize('p, group, rate', [(.9, 8, .5695), (.5, 2, .5), (1.0, 4, 0.0)])
  def test_the_expected_rate_of_kept_groups(self, p, group, rate):
    """1 - p^G - (1 - p)^G."""
    outcomes = np.random.default_rng(0).random((4000, group)) < p
    rollout = testing.make_rollout(outcomes.astype(float).tolist(), lengths=[0] * outcomes.size)
    sampled = rollouts.Sampled(rollout, [], [], [], {})
    kept = dynamic_sampling.informative_groups(sampled)
    assert kept.mean() == pytest.approx(rate, abs=.02)
