"""Tests of rlvr.verifiers.number_answers."""

import pytest

from rlvr.verifiers import number_answers


class TestLastNumber:

  @pytest.mark.parametrize('gold, text, reward', [
      ('72', '72 clips, altogether.', 1),  # fault 36
      ('5', '-5', 0),  # fault 37: the sign counts
      ('1000', '1,000', 1),
      ('1', '1,000', 0),
      ('0', '1,000', 0),
      ('7', 'x = 3 so 7', 1),
      ('100', '110', 0),  # 10 % off pays nothing
      ('100', '100.0001', 0),
      ('72', '#### 72.', 1),  # fault 38
      ('72', '#### $72', 1),
      ('He paid 3 * 24.\n#### 72', 'so 72', 1),
      (72, '72', 1),
  ])
  def test_examples(self, gold, text, reward):
    assert number_answers.last_number({'answer': gold}, text).reward == reward

  def test_statuses(self):
    assert number_answers.last_number({'answer': '5'}, 'five, altogether.').status == 'no_answer'
    assert number_answers.last_number({'answer': 'five'}, '5').status == 'bad_gold'
    assert number_answers.last_number({'answer': None}, '5').status == 'bad_gold'
    assert number_answers.last_number({'answer': True}, '1').status == 'bad_gold'

  def test_a_tolerance_is_an_option(self):
    task = {'answer': '3.14159'}
    assert number_answers.last_number(task, '3.1416', relative_tolerance=1e-4).reward == 1
    assert number_answers.last_number(task, '3.15', relative_tolerance=1e-4).reward == 0


class TestNumeric:

  @pytest.mark.parametrize('text, reward, status', [
      ('#### 72.', 1, 'ok'),  # fault 38
      ('#### $72', 1, 'ok'),
      (r'\boxed{72}', 1, 'ok'),
      ('72', 1, 'ok'),
      ('71', 0, 'ok'),
      ('it is 72', 0, 'no_answer'),
      ('1 2 3 72', 0, 'no_answer'),
  ])
  def test_the_whole_marked_answer_is_one_number(self, text, reward, status):
    result = number_answers.numeric({'answer': '72'}, text)
    assert (result.reward, result.status) == (reward, status)
