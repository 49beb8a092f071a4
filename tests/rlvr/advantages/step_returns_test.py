"""Returns that end at a mismatch and the two advantages over them, by the card's numbers."""

import functools

import chex
import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized
from hypothesis import strategies as st

from rlvr import advantages
from rlvr import testing
from rlvr.advantages import step_returns
from rlvr.envs import expert_steps

PART = functools.partial(advantages.semi_online, base=functools.partial(advantages.grpo, eps=0.))
STEP = functools.partial(PART, episode_weight=0.)


def make(tasks, padding=0):
  """tasks: of each, its trajectories; of each, (rewards, matches)."""
  rewards, ids, index, match = [], [], [], []
  for task in tasks:
    rewards.append([r for own, _ in task for r in own])
    for number, (own, matches) in enumerate(task):
      ids += [number] * len(own)
      index += range(len(own))
      match += matches
  padded = lambda x: jnp.pad(jnp.array(x, jnp.int32), (0, padding))
  return testing.make_rollout(
      rewards, padding=padding, trajectory=padded(ids), step_index=padded(index),
      match=padded(match))


TWO = [[([1, 1, 1], [1, 1, 1]), ([1, .55], [1, 0])]]
steps = st.lists(st.tuples(st.sampled_from([0, .1, .19, .55, 1.]), st.booleans()),
                 min_size=1, max_size=3)


def as_task(drawn):
  return [([r for r, _ in own], [m for _, m in own]) for own in drawn]


class StepReturnsTest(chex.TestCase):

  @chex.all_variants
  @parameterized.parameters(
      ([1, 1, .55, 1], [1, 1, 0, 1], [1.5, 1, .55, 1]),
      ([1, 1, 1], [1, 1, 1], [1.75, 1.5, 1]),
      ([.1], [0], [.1]), ([.55], [1], [.55]))
  def test_worked(self, rewards, matches, expected):
    rollout = make([[(rewards, matches)]])
    result = self.variant(step_returns.step_returns)(rollout)
    np.testing.assert_allclose(result, expected, rtol=1e-6)

  def test_rows_may_come_in_any_order(self):
    order = jnp.array([2, 4, 0, 3, 1])
    rollout = make(TWO)
    moved = rollout.replace(
        reward=rollout.reward[order], trajectory=rollout.trajectory[order],
        extras={k: v[order] for k, v in rollout.extras.items()})
    np.testing.assert_array_equal(
        step_returns.step_returns(moved), step_returns.step_returns(rollout)[order])

  def test_no_discount_is_the_reward(self):
    rollout = make(TWO)
    np.testing.assert_array_equal(
        step_returns.step_returns(rollout, discount=0.), rollout.reward)

  @hypothesis.settings(max_examples=15, deadline=None)
  @hypothesis.given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()),
                             min_size=5, max_size=5), st.floats(0, .9))
  def test_bounds_and_the_recursion(self, drawn, discount):
    rewards, matches = [r for r, _ in drawn], [m for _, m in drawn]
    expected, after = [], 0.
    for r, m in zip(rewards[::-1], matches[::-1], strict=True):
      expected.append(r + discount * after if m else r)
      after = expected[-1] if m else 0.
    result = step_returns.step_returns(make([[(rewards, matches)]]), discount=discount)
    np.testing.assert_allclose(result, expected[::-1], rtol=1e-5, atol=1e-7)
    assert (result >= np.array(rewards, np.float32)).all()
    assert (result <= 1 / (1 - discount) * (1 + 1e-6)).all()

  def test_an_ungraded_step_is_left_out(self):
    rollout = make([[([1, None, 1], [1, 1, 1])]])
    np.testing.assert_allclose(step_returns.step_returns(rollout), [1.5, 0, 1])


class SemiOnlineTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make(TWO)
    np.testing.assert_allclose(self.variant(STEP)(rollout), [1, 1, 0, -1, -1], rtol=1e-5)
    np.testing.assert_allclose(self.variant(PART)(rollout), [2, 2, 1, -2, -2], rtol=1e-5)

  def test_centre_only(self):
    part = functools.partial(advantages.semi_online, base=advantages.dr_grpo)
    # Returns 1.75 / 1 and 1.5 / .55 about their means; totals 3 and 1.55.
    np.testing.assert_allclose(
        part(make(TWO), episode_weight=0.), [.375, .475, 0, -.375, -.475], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        part(make(TWO), step_weight=0.), [.725] * 3 + [-.725] * 2, rtol=1e-5)

  def test_episode_of_rows(self):
    """The released code's: the step's own reward over all steps of all trajectories."""
    part = functools.partial(PART, episode='row', step_weight=0.)
    rewards = np.array([1, 1, 1, 1, .55])
    expected = (rewards - rewards.mean()) / rewards.std()
    np.testing.assert_allclose(part(make(TWO)), expected, rtol=1e-5)

  def test_weights_scale_their_part(self):
    rollout = make(TWO)
    whole, step = PART(rollout, step_weight=0.), STEP(rollout)
    np.testing.assert_allclose(
        PART(rollout, episode_weight=.5, step_weight=2.), .5 * whole + 2 * step, rtol=1e-5)

  @hypothesis.settings(max_examples=15, deadline=None)
  @hypothesis.given(st.lists(steps, min_size=3, max_size=3))
  def test_step_advantages_of_an_index_sum_to_0(self, drawn):
    rollout = make([as_task(drawn)], padding=9 - sum(map(len, drawn)))
    step = np.asarray(STEP(rollout))
    index = np.where(rollout.where, rollout.extras['step_index'], -1)
    for number in range(3):
      np.testing.assert_allclose(step[index == number].sum(), 0, atol=1e-5)

  def test_one_step_tasks_without_the_step_level_are_grpo(self):
    rollout = make([[([r], [r == 1]) for r in (1, .55, .1)], [([1], [1]), ([.55], [0])]])
    for episode in ('trajectory', 'row'):
      np.testing.assert_allclose(
          advantages.semi_online(rollout, step_weight=0., episode=episode),
          advantages.grpo(rollout), rtol=1e-5)

  def test_a_sole_trajectory_and_a_sole_index_give_0(self):
    alone = make([[([1, .55, .1], [1, 0, 1])]])
    np.testing.assert_array_equal(advantages.semi_online(alone), 0)
    assert STEP(make(TWO))[2] == 0

  def test_equal_totals_in_another_order_are_equal(self):
    rewards = [([.1, .55, 1, .19], [1] * 4), ([1, .19, .55, .1], [1] * 4)]
    np.testing.assert_array_equal(advantages.semi_online(make([rewards]), step_weight=0.), 0)

  def test_another_task_changes_nothing(self):
    other = [([.1, .55], [1, 1]), ([1], [0])]
    np.testing.assert_array_equal(PART(make([*TWO, other]))[:5], PART(make(TWO)))

  def test_refusals(self):
    rollout = make(TWO)
    with pytest.raises(ValueError, match='discount=1'):
      advantages.semi_online(rollout, discount=1.)
    with pytest.raises(ValueError, match="episode='task'"):
      advantages.semi_online(rollout, episode='task')
    with pytest.raises(ValueError, match='step_index'):
      advantages.semi_online(rollout.replace(extras={}))
    with pytest.raises(ValueError, match='one advantage a row'):
      advantages.semi_online(rollout, base=advantages.eapo)


def test_rows_of_patched_rollouts_are_trained_on_the_policys_tokens_alone():
  """From an expert's steps to advantages: matches 1 0 1 and 0 1 1, two patches."""
  expert = [expert_steps.ExpertStep('o', 'E')] * 3
  rows = []
  for matches in ([1, 0, 1], [0, 1, 1]):
    judge = lambda step, output, left=iter(matches): expert_steps.Judged(
        expert_steps.EXACT if next(left) else expert_steps.BROKEN, True)
    rows.append(expert_steps.follow(expert, lambda messages: 'pp', judge))
  flat = [row for own in rows for row in own]
  ids = lambda text: [ord(letter) for letter in text]
  rollout = testing.make_rollout(
      [[row.reward for row in flat]], tokens=[ids(row.output) for row in flat],
      prompts=[ids(''.join(m['content'] for m in row.messages)) for row in flat],
      prompt=jnp.arange(6), trajectory=jnp.array([0, 0, 0, 1, 1, 1]),
      step_index=jnp.array([row.step_index for row in flat]),
      match=jnp.array([row.match for row in flat]))
  assert [row.left for row in flat].count(expert_steps.EXPERT) == 2
  assert (rollout.prompts.tokens == ord('E')).any()
  assert (rollout.tokens[rollout.mask != 0] == ord('p')).all()
  # R: 1 .1 1 and .1 1.5 1.
  np.testing.assert_allclose(step_returns.step_returns(rollout), [1, .1, 1, .1, 1.5, 1], rtol=1e-6)
  np.testing.assert_allclose(PART(rollout), [1, -1, 0, -1, 1, 0], rtol=1e-5)
