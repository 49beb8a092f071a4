"""Tests of rlvr.verifiers.part_answers."""

import pytest

from rlvr.verifiers import part_answers

TASK = {'answer': '7;12'}


@pytest.mark.parametrize('text, parts', [
    ('7;12', (1, 1)), ('7; 12 ', (1, 1)), ('7;11', (1, 0)), ('12;7', (0, 0)), ('7', (1, 0)),
    (';12', (0, 1)), ('7;12;99', (1, 1)), ('7;12 or 13', (1, 0)), ('', (0, 0))])
def test_examples(text, parts):
  result = part_answers.answer_parts(TASK, text)
  assert result.columns == {'part_1': parts[0], 'part_2': parts[1]}
  assert result.reward == sum(parts) / 2
  assert result.status == ('ok' if text else 'no_answer')


@pytest.mark.parametrize('task', [{}, {'answer': ''}, {'answer': '7;'}])
def test_a_reference_with_a_blank_part_is_ungraded(task):
  assert part_answers.answer_parts(task, '7;12').status == 'bad_gold'


def test_a_separator_is_needed():
  with pytest.raises(ValueError, match='must not be blank'):
    part_answers.answer_parts(TASK, '7', separator=' ')
