"""Tests of rlvr.envs.sums."""

import pytest

from rlvr.envs import sums


def _questions(tasks):
  return {task['messages'][0]['content'] for task in tasks}


class TestAddition:

  def test_every_pair_is_in_one_part(self):
    made = sums.addition(low=1, high=20)
    assert (len(made.train), len(made.held_out)) == (336, 64)
    assert len(_questions(made.train) | _questions(made.held_out)) == 400

  def test_a_task(self):
    made = sums.addition(template='{a} and {b}', low=7, high=7, num_held_out=0)
    assert made.train[0] == {
        'id': 0, 'messages': [{'role': 'user', 'content': '7 and 7'}], 'answer': '14', 'level': 1}
    assert made.verifier(made.train[0], 'it is 14.').reward == 1
    assert made.verifier(made.train[0], '14 or 15').reward == 0

  def test_the_held_out_pairs_stay_when_there_is_less_to_train_on(self):
    few, many = (sums.addition(num_train=n).held_out for n in (5, 300))
    assert _questions(few) == _questions(many)

  def test_large_numbers_are_not_listed(self):
    made = sums.addition(low=10**8, high=10**9, num_train=10)
    assert len(_questions(made.train)) == 10

  @pytest.mark.parametrize('a, b, level', [
      (12, 5, 0), (7, 5, 1), (95, 7, 2), (5, 95, 2), (999, 1, 3), (0, 0, 0), (50, 50, 1)])
  def test_the_level_is_the_number_of_carries(self, a, b, level):
    assert sums.carries(a, b) == level

  @pytest.mark.parametrize('options, message', [
      ({'low': 5, 'high': 4}, 'low is 5 and high is 4'),
      ({'low': -1}, 'low is -1'),
      ({'template': 'What is {a}?'}, 'it must hold'),
      ({'low': 1, 'high': 2, 'num_held_out': 4}, 'num_held_out is 4 of 4'),
      ({'low': 1, 'high': 2, 'num_held_out': 1, 'num_train': 4}, 'num_train is 4'),
  ])
  def test_says_what_is_wrong(self, options, message):
    with pytest.raises(ValueError, match=message):
      sums.addition(**options)


class TestAdditionTiny:

  def test_is_a_few_bytes(self):
    made = sums.addition_tiny()
    assert all(len(q) == 4 and q[1] == '+' and q[3] == '=' for q in _questions(made.train))
    assert all(int(task['answer']) <= 18 for task in made.train)
    assert made.verifier(made.train[0], made.train[0]['answer'] + '\n').reward == 1
