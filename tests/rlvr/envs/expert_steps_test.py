"""Patched rollouts on an expert's steps: who is in the history, rewards, and the metric."""

import pytest

from rlvr.envs import expert_steps
from rlvr.envs.expert_steps import EXPERT
from rlvr.envs.expert_steps import MODEL
from rlvr.envs.expert_steps import STOP

MATCHES = [1, 0, 1, 0, 0, 1]


def rollout(matches, **options):
  """A rollout of outputs p0, p1, ... on expert steps o0/e0, o1/e1, ..."""
  expert = [expert_steps.ExpertStep(f'o{t}', f'e{t}') for t in range(len(matches))]

  def act(messages):
    return f'p{sum(m["role"] == "user" for m in messages) - 1}'

  def judge(step, output):
    assert step.text[1:] == output[1:]
    match = matches[int(output[1:])]
    return expert_steps.Judged(
        expert_steps.EXACT if match else expert_steps.SAME_TYPE, True)

  return expert_steps.follow(expert, act, judge, **options)


class TestHistoryTags:

  def test_worked(self):
    assert expert_steps.history_tags(MATCHES) == [MODEL, EXPERT, MODEL, EXPERT, STOP]
    assert expert_steps.history_tags(MATCHES, max_patch=-1) == [
        MODEL, EXPERT, MODEL, EXPERT, EXPERT, MODEL]
    assert expert_steps.history_tags([0, 1], max_patch=0) == [STOP]

  def test_a_mismatch_at_the_last_step_with_patches_left_is_finished(self):
    assert expert_steps.history_tags([1, 0]) == [MODEL, EXPERT]
    assert expert_steps.history_tags([]) == []

  @pytest.mark.parametrize('max_patch', [0, 1, 2, 3, -1])
  def test_no_more_patches_than_allowed(self, max_patch):
    for bits in range(2 ** 6):
      matches = [bits >> t & 1 for t in range(6)]
      tags = expert_steps.history_tags(matches, max_patch=max_patch)
      misses = matches.count(0)
      if max_patch == -1:
        assert len(tags) == 6 and tags.count(EXPERT) == misses
      else:
        assert tags.count(EXPERT) == min(misses, max_patch)
        assert (STOP in tags) == (misses > max_patch)
      assert STOP not in tags[:-1]

  def test_it_refuses_other_negative_limits(self):
    with pytest.raises(ValueError, match='max_patch=-2'):
      expert_steps.history_tags([1], max_patch=-2)


class TestFollow:

  def test_steps_taken_and_what_the_policy_saw(self):
    rows = rollout(MATCHES)
    assert [row.left for row in rows] == [MODEL, EXPERT, MODEL, EXPERT, STOP]
    assert [m['content'] for m in rows[-1].messages] == [
        'o0', 'p0', 'o1', 'e1', 'o2', 'p2', 'o3', 'e3', 'o4']
    assert [m['role'] for m in rows[1].messages] == ['user', 'assistant', 'user']
    assert len(rollout(MATCHES, max_patch=-1)) == 6
    assert len(rollout([0, 1], max_patch=0)) == 1

  def test_the_expert_is_context_and_never_an_output(self):
    """The failed step is a row too, with the reward of the policy's own output."""
    for row in rollout(MATCHES, max_patch=-1):
      assert row.output == f'p{row.step_index}'
      assert row.match == bool(MATCHES[row.step_index])
      assert row.reward == pytest.approx(1 if row.match else .55)


class TestStepReward:

  def test_worked(self):
    assert expert_steps.step_reward(expert_steps.EXACT, True) == 1
    assert expert_steps.step_reward(expert_steps.SAME_TYPE, True) == pytest.approx(.55)
    assert expert_steps.step_reward(expert_steps.PARSED, False) == pytest.approx(.09)
    assert expert_steps.step_reward(expert_steps.BROKEN, True) == pytest.approx(.1)
    assert expert_steps.step_reward(expert_steps.BROKEN, False) == 0


class TestSemiOnlinePerformance:

  def test_worked(self):
    result = expert_steps.semi_online_performance([4, 2, 0], [4, 4, 5])
    assert result == pytest.approx((.5, 1 / 3, .5 * (.5 + 1 / 3)))
    assert result.score == pytest.approx(.41667, abs=1e-5)

  @pytest.mark.parametrize('matched, lengths', [([], []), ([3], [2]), ([0], [0]), ([1], [1, 2])])
  def test_refusals(self, matched, lengths):
    with pytest.raises(ValueError):
      expert_steps.semi_online_performance(matched, lengths)
