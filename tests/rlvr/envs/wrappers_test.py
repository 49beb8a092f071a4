"""Tests of rlvr.envs.wrappers."""

import functools

import pytest

from rlvr import verifiers
from rlvr.envs import sums
from rlvr.envs import wrappers


def _question(task):
  return task['messages'][-1]['content']


class TestRegraded:

  def test_the_tasks_stay_and_the_verdict_changes(self):
    tagged = functools.partial(verifiers.tagged_answer, verifier=verifiers.last_number)
    made = wrappers.regraded(base=sums.addition_tiny, verifier=tagged)
    plain = sums.addition_tiny()
    assert made.train[3] == plain.train[3]
    task = made.train[0]
    full = made.verifier(task, f'<think></think><answer>{task["answer"]}</answer>')
    assert full.columns == {'format': 1, 'correct': 1}
    assert made.verifier(task, task['answer']).reward == 0
    assert 'tagged_answer' in made.description


class TestWithStrategies:

  def test_each_prompt_has_one_and_held_out_prompts_none(self):
    made = wrappers.with_strategies(base=sums.addition_tiny, strategies=(' A', ' B', ''))
    plain = sums.addition_tiny()
    for i, end in enumerate((' A', ' B', '', ' A')):
      assert _question(made.train[i]) == _question(plain.train[i]) + end
      assert made.train[i]['strategy'] == i % 3
      assert made.train[i]['answer'] == plain.train[i]['answer']
    assert [_question(t) for t in made.held_out] == [_question(t) for t in plain.held_out]

  def test_needs_a_strategy(self):
    with pytest.raises(ValueError, match=r'strategies=\(\)'):
      wrappers.with_strategies(strategies=())


class TestTwoSums:

  def test_a_task(self):
    made = wrappers.two_sums(low=3, high=4, num_held_out=0)
    for task in made.train:
      first, second = _question(task).rstrip('=').split(';')
      sum_of = lambda text: str(sum(map(int, text.split('+'))))
      assert task['answer'] == f'{sum_of(first)};{sum_of(second)}'
    task = made.train[0]
    first, second = task['answer'].split(';')
    assert made.verifier(task, f'{first};0').columns == {'part_1': 1, 'part_2': 0}
    assert made.verifier(task, f'0;{second}').reward == .5

  def test_says_what_is_wrong(self):
    with pytest.raises(ValueError, match='second'):
      wrappers.two_sums(template='{first}')
