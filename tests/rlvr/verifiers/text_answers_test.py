"""Tests of rlvr.verifiers.text_answers."""

import pytest

from rlvr.verifiers import text_answers


class TestExact:

  @pytest.mark.parametrize('gold, text, reward', [
      ('12', '', 0),  # fault 42: an empty string is in every answer
      ('A', 'A or B or C', 0),  # fault 42: so is a list of all choices
      ('A', 'a', 1),
      ('A', r'I choose \boxed{A}.', 1),
      ('A', r'A, no: \boxed{B}', 0),
      ('Paris', ' paris. ', 1),
      ('1000', '1,000', 1),
      (r'some work \boxed{72}', '72', 1),
      ('some work\n#### 72', '#### $72', 1),
  ])
  def test_examples(self, gold, text, reward):
    assert text_answers.exact({'answer': gold}, text).reward == reward

  def test_case_counts_when_asked(self):
    assert not text_answers.exact({'answer': 'A'}, 'a', ignore_case=False).reward

  def test_statuses(self):
    assert text_answers.exact({'answer': 'A'}, ' \n').status == 'no_answer'
    assert text_answers.exact({'answer': 'A'}, 'B').status == 'ok'
    assert text_answers.exact({'answer': ' '}, 'B').status == 'bad_gold'
    assert text_answers.exact({}, 'B').status == 'bad_gold'
