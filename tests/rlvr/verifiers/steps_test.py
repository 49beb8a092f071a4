"""Tests of rlvr.verifiers.steps."""

import pytest

from rlvr.verifiers import steps
from rlvr.verifiers import verdict

TASK = {'answer': '9', 'solution': '5+4=9', 'messages': [{'role': 'user', 'content': '2+3+4='}]}
TEXTS = ('5+4=9', '6+4=9', '5+4=8', '6+4=8', '9', '')


class Judge:
  """Counts its calls and says what it is told to."""

  def __init__(self, answer=0):
    self.seen, self._answer = [], answer

  def __call__(self, problem, reference, steps_):
    self.seen.append((problem, reference, list(steps_)))
    return self._answer


def places(**options):
  return [steps.judged_steps(TASK, text, **options).offsets['first_error'] for text in TEXTS]


class TestJudgedSteps:

  def test_where_the_first_wrong_step_begins(self):
    assert places() == [-1, 0, 4, 0, -1, -1]

  def test_the_outcome_is_the_bases(self):
    assert [steps.judged_steps(TASK, text).reward for text in TEXTS] == [1, 1, 0, 0, 1, 0]
    base = lambda task, text: verdict.Verdict(.5, {'a': 1.0}, offsets={'b': 2})
    result = steps.judged_steps(TASK, 'x', base=base)
    assert (result.reward, result.columns, result.offsets) == (
        .5, {'a': 1.0}, {'b': 2, 'first_error': -1})

  @pytest.mark.parametrize('judged, calls', [('right', 3), ('wrong', 3), ('all', 6)])
  def test_the_judge_is_asked_about_those_answers_only(self, judged, calls):
    """FAPO: calls = right answers. Cliff: calls = wrong answers (a rule needs no solving)."""
    judge = Judge()
    found = places(judged=judged, judge=judge)
    assert len(judge.seen) == calls
    right = [1, 1, 0, 0, 1, 0]
    expected = {'right': right, 'wrong': [1 - r for r in right], 'all': [1] * 6}[judged]
    # The empty text is judged as well, but has no step to be wrong.
    assert [place >= 0 for place in found] == [bool(e and text) for e, text in
                                               zip(expected, TEXTS, strict=True)]

  def test_what_the_judge_is_told(self):
    judge = Judge()
    steps.judged_steps(TASK, '5+4=8', judge=judge)
    steps.judged_steps({'answer': '9'}, 'a\nb', judge=judge, boundary='\n')
    assert judge.seen == [('2+3+4=', '5+4=9', ['5+4=', '8']), ('', '9', ['a\n', 'b'])]

  @pytest.mark.parametrize('answer', [-1, 2, 99, -7])
  def test_an_index_that_is_no_step_is_none(self, answer):
    assert steps.judged_steps(TASK, '5+4=8', judge=Judge(answer)).offsets['first_error'] == -1

  def test_an_ungraded_answer_is_not_judged(self):
    judge = Judge()
    result = steps.judged_steps({}, '5', judge=judge)
    assert (result.status, result.offsets, judge.seen) == ('bad_gold', {'first_error': -1}, [])

  def test_an_unknown_choice(self):
    with pytest.raises(ValueError, match="judged='some' must be one of all, right, wrong"):
      steps.judged_steps(TASK, '', judged='some')


class TestArithmeticRubric:

  @pytest.mark.parametrize('text, met', [
      ('5+4=9', 'answer brief form sound start'),
      ('9', 'answer brief form guess start'),
      ('6+4=9', 'answer brief form'),
      ('5+4=8', 'brief form start'),
      ('5 + 4 = 9', 'answer form sound start'),
      ('so 5+4=9', 'answer sound start'),
      ('', 'guess'),
  ])
  def test_worked(self, text, met):
    columns = steps.arithmetic_rubric(TASK, text).columns
    assert list(columns) == ['answer', 'brief', 'form', 'guess', 'sound', 'start']
    assert {name for name, value in columns.items() if value} == set(met.split())
    assert set(columns.values()) <= {0.0, 1.0}
