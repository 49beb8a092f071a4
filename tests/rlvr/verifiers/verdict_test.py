"""Tests of rlvr.verifiers.verdict."""

import dataclasses
import pickle

import pytest

from rlvr.verifiers import verdict


class TestVerdict:

  def test_only_what_the_policy_cannot_cause_is_ungraded(self):
    ungraded = {s for s in verdict.STATUSES if not verdict.failed(s).graded}
    assert ungraded == {'grader_error', 'outage', 'bad_gold'}

  def test_is_frozen_and_picklable(self):
    one = verdict.Verdict(1.0, {'format': 1.0}, 'ok', '72')
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(dataclasses.FrozenInstanceError):
      one.reward = 0.0

  @pytest.mark.parametrize('reward, columns, status', [
      (float('nan'), {}, 'ok'),
      (1.0, {'format': float('inf')}, 'ok'),
      (1.0, {}, 'timeout'),
      (0.0, {}, 'tired'),
  ])
  def test_refuses_what_no_verdict_can_say(self, reward, columns, status):
    with pytest.raises(ValueError):
      verdict.Verdict(reward, columns, status)

  @pytest.mark.parametrize('offset', [-2, 1.5, None])
  def test_refuses_an_offset_that_is_no_place(self, offset):
    with pytest.raises(ValueError, match='offset first_error is'):
      verdict.Verdict(0.0, offsets={'first_error': offset})

  def test_the_shown_answer_is_short(self):
    assert len(verdict.graded_as(True, 'x' * 10**6).answer) == verdict.MAX_SHOWN


class TestShares:

  def test_fault_40_three_of_eight_are_excluded(self):
    batch = [verdict.failed('grader_error')] * 3 + [verdict.graded_as(True, '1')] * 4 + [
        verdict.failed('timeout')]
    shares = verdict.shares(batch)
    assert shares['ungraded'] == .375
    assert shares['status/grader_error'] == .375
    assert shares['status/timeout'] == .125
    assert shares['status/ok'] == .5

  def test_an_empty_batch_gives_zeros(self):
    assert set(verdict.shares([]).values()) == {0.0}
