"""Tests of rlvr.verifiers.math_answers."""

import threading
import time

import pytest

from rlvr.verifiers import math_answers

_SOLUTION = r'First \boxed{1}, and so the sum is \boxed{\frac{1}{2}}, as was to be shown.'


class TestMath:

  @pytest.mark.parametrize('gold, text, reward', [
      (r'\frac{1}{2}', _SOLUTION, 1),  # fault 35: the last balanced box
      ('1', _SOLUTION, 0),
      (_SOLUTION, r'\boxed{0.5}', 1),  # fault 35: the gold is extracted the same way
      ('#### 72', '#### 72.', 1),  # fault 38
      ('72', '#### $72', 1),
      ('1000', r'\boxed{1,000}', 1),
      ('1000', r'\boxed{1{,}000}', 1),
      ('5', r'\boxed{-5}', 0),
      ('x^2+2x+1', r'\boxed{(x+1)^2}', 1),
      (r'2\sqrt{3}', r'\boxed{\sqrt{12}}', 1),
      ('3', r'\boxed{x = 3}', 1),
      ('(1, 2)', r'\boxed{(2, 1)}', 0),
      (r'\text{Monday}', r'\boxed{Monday}', 1),
      ('100', r'\boxed{110}', 0),
      ('0.333', r'\boxed{\frac{1}{3}}', 0),
  ])
  def test_examples(self, gold, text, reward):
    assert math_answers.math({'answer': gold}, text).reward == reward

  def test_fault_35_no_box_is_zero_by_rule(self):
    result = math_answers.math({'answer': '72'}, 'it is 72')
    assert (result.reward, result.status, result.graded) == (0, 'no_answer', True)
    unmarked = math_answers.math({'answer': '72'}, 'it is\n72\n', require_mark=False)
    assert unmarked.reward == 1

  def test_a_blank_reference_is_ungraded(self):
    assert math_answers.math({'answer': ''}, r'\boxed{1}').status == 'bad_gold'

  @pytest.mark.parametrize('bomb', [
      '5^(5^(5^(5^5)))', '5^{5^{5^{5^5}}}', '9**9**9**9', '2^{2^{100}}', '9^{999999999}',
      '100000!', '3!!!!', r'\binom{1000000000}{500000000}', '(' * 5000, '1+' * 5000])
  def test_fault_39_known_bombs_do_not_reach_the_parser(self, bomb):
    start = time.monotonic()
    result = math_answers.math({'answer': '72'}, '\\boxed{' + bomb + '}')
    assert time.monotonic() - start < 1
    assert (result.reward, result.status, result.graded) == (0, 'bad_text', True)

  @pytest.mark.parametrize('expression', [
      'e^{x^{2}}', 'x^2y^2z^2w^2', 'x^{2}+y^{2}+z^{2}+w^{2}', '2^{10}', '10^{-9}', '20!',
      r'\frac{x^2}{y^2}', '((((1))))', 'x^{-y^{2}}', '2^{2^{5}}'])
  def test_ordinary_answers_are_not_called_pathological(self, expression):
    assert not math_answers.pathological(expression)

  def test_a_bomb_that_equals_its_reference_is_right(self):
    assert math_answers.math({'answer': '9^{9^{9^{9}}}'}, r'\boxed{9^{9^{9^{9}}}}').reward == 1

  def test_fault_39_works_off_the_main_thread(self):
    # The library's own time-out is a signal, which only the main thread may set.
    found = []
    thread = threading.Thread(target=lambda: found.append(
        math_answers.math({'answer': r'\frac{3}{2}'}, r'\boxed{1.5}')))
    thread.start()
    thread.join()
    assert found[0].reward == 1
