"""Tests of rlvr.verifiers.judges."""

import time

import pytest

from rlvr.verifiers import judges


def first(text, problem=''):
  """The text from its first wrong step on, or None."""
  steps = judges.split_steps(text)
  index = judges.arithmetic(problem, '', [step for _, step in steps])
  return None if index < 0 else text[steps[index][0]:]


class TestSplitSteps:

  def test_worked(self):
    assert judges.split_steps('3 + 4 = 7. Then\n\n 7 * 2.5=17.5;') == [
        (0, '3 + 4 ='), (8, '7.'), (11, 'Then\n'), (18, '7 * 2.5='), (26, '17.5;')]

  def test_steps_and_offsets_agree_whatever_the_boundary(self):
    text = ' a\n\nb = c. d\n'
    for boundary in (judges.BOUNDARY, r'\n+', 'x', '', 'a?'):
      for offset, step in judges.split_steps(text, boundary=boundary):
        assert step and text[offset:offset + len(step)] == step and not step[0].isspace()

  def test_nothing(self):
    assert judges.split_steps('') == judges.split_steps(' \n ') == []


class TestArithmetic:

  @pytest.mark.parametrize('text, expected', [
      ('3 + 4 = 8', '8'),
      ('3 + 4 = 7', None),
      ('3+4=7\n7*2=15\n1=1', '15\n1=1'),
      ('First 3 + 4 = 8. So it is 8.', '8. So it is 8.'),
      ('3 × 4 = 12 apples; 12 ÷ 5 = 2.4', None),
      ('2*(3+4)=15', '15'),
      ('1/3 = 0.33', '0.33'),
      ('2−5 = −3', None),
      ('3+4=\n8', '8'),
      ('1=1=2', '2'),
  ])
  def test_equations_in_a_text(self, text, expected):
    assert first(text) == expected

  @pytest.mark.parametrize('text', [
      '', '=', '5', 'seven', 'x - 3 + 4 = 1', 'x=3', 'the sum of 3 and 4 = 7', '3 + 4 = 5x',
      '3 + 4 = seven', '((((=2', '1/0=2', '2**9=5', '0x1+1=9', '007+1=9', '(' * 150 + '=1',
      '9' * 201 + '=1', '1_0+1=3', '3 4+1=2', '5(3)=2', '\x00=1', '50% of 8 = 4'])
  def test_what_cannot_be_read_is_not_wrong(self, text):
    assert first(text) is None

  @pytest.mark.parametrize('text, expected', [
      ('5+4=9', None), ('6+4=10', '6+4=10'), ('5+4=8', '8'), ('9', None), ('8', '8'),
      ('5+4', None), ('so 5+4=8', '8')])
  def test_a_problem_that_ends_in_an_equals_sign_goes_on(self, text, expected):
    assert first(text, '2+3+4=') == expected

  def test_is_linear_in_a_hostile_text(self):
    start = time.process_time()
    for piece in ('1+', '(', '9', '=', '1=', ' ', '- ', 'a. '):
      judges.arithmetic('', '', [s for _, s in judges.split_steps(piece * 20_000)])
    assert time.process_time() - start < 5


class TestJudgeReward:

  @pytest.mark.parametrize('predicted, truth, reward', [
      (-1, -1, 1), (2, -1, -1), (None, 3, -1), (-1, 3, -1), (3, 3, 1), (1, 3, .6), (7, 3, -1),
      (-2, 3, -1), (None, -1, -1)])
  def test_the_cards_table_at_five_steps(self, predicted, truth, reward):
    assert judges.judge_reward(predicted, truth, 5) == pytest.approx(reward)

  def test_a_truth_that_is_no_step(self):
    with pytest.raises(ValueError, match='truth is 5'):
      judges.judge_reward(0, 5, 5)
