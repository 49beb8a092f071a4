"""Tests of rlvr.envs.gym."""

import pytest

from rlvr.envs import gym


def _questions(tasks):
  return [task['messages'][-1]['content'] for task in tasks]


class TestReasoningGym:

  def test_a_task_is_scored_by_its_own_scorer(self):
    made = gym.reasoning_gym(dataset='gcd', size=3, num_held_out=2)
    task = made.train[1]
    assert [t['id'] for t in (*made.train, *made.held_out)] == [0, 1, 2, 3, 4]
    assert [m['role'] for m in task['messages']] == ['system', 'user']
    assert made.verifier(task, f'<answer>{task["answer"]}</answer>').reward == 1
    assert made.verifier(task, '<answer>0</answer>').reward < 1

  def test_options_reach_the_data_set(self):
    made = gym.reasoning_gym(
        dataset='chain_sum', size=5, num_held_out=1, system_prompt='',
        dataset_options='{"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}')
    assert all(task['entry']['metadata']['num_terms'] == 2 for task in made.train)
    assert [m['role'] for m in made.train[0]['messages']] == ['user']

  def test_a_held_out_question_is_not_trained_on_even_where_few_exist(self):
    # 9 * 9 * 2 sums at most, so 200 draws must meet the 40 held out many times.
    options = '{"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}'
    made = gym.reasoning_gym(size=200, num_held_out=40, dataset_options=options)
    held_out = set(_questions(made.held_out))
    assert not held_out & set(_questions(made.train))
    assert _questions(made.train) == _questions(made.train)

  def test_too_few_questions_is_one_sentence(self):
    options = ('{"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}')
    made = gym.reasoning_gym(size=5, num_held_out=5000, dataset_options=options)
    with pytest.raises(ValueError, match='lower num_held_out or widen'):
      for _ in made.train:
        continue

  def test_a_mixture(self):
    made = gym.reasoning_gym(
        dataset='composite', size=20, num_held_out=2,
        dataset_options='{"datasets": [{"name": "gcd"}, {"name": "lcm", "weight": 2}]}')
    sources = {task['entry']['metadata']['source_dataset'] for task in made.train}
    assert sources == {'gcd', 'lcm'}
    task = made.train[0]
    assert made.verifier(task, f'<answer>{task["answer"]}</answer>').reward == 1

  @pytest.mark.parametrize('options, message', [
      ({'dataset': 'chain_sun'}, "Did you mean 'chain_sum'"),
      ({'dataset_options': '{"max_terms": 1}'}, 'refuses'),
      ({'size': 0}, 'size is 0'),
  ])
  def test_says_what_is_wrong(self, options, message):
    with pytest.raises(ValueError, match=message):
      gym.reasoning_gym(**options)
