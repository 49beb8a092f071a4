"""Tests of rlvr.envs.chains."""

import pytest

from rlvr.envs import chains
from rlvr.verifiers import judges


def _questions(tasks):
  return {task['messages'][0]['content'] for task in tasks}


class TestSumChain:

  def test_every_triple_is_in_one_part(self):
    made = chains.sum_chain(low=1, high=4, num_held_out=14)
    assert (len(made.train), len(made.held_out)) == (50, 14)
    assert len(_questions(made.train) | _questions(made.held_out)) == 64

  def test_a_task_and_its_solution(self):
    made = chains.sum_chain_tiny(low=4, high=4, num_held_out=0)
    assert made.train[0] == {
        'id': 0, 'messages': [{'role': 'user', 'content': '4+4+4='}], 'answer': '12',
        'solution': '8+4=12'}

  def test_every_solution_is_right_and_without_a_mistake(self):
    made = chains.sum_chain_tiny()
    for part in (made.train, made.held_out):
      for task in part:
        result = made.verifier(task, task['solution'])
        assert (result.reward, result.offsets) == (1, {'first_error': -1})
        question = task['messages'][0]['content']
        assert judges.arithmetic(question, '', [task['answer']]) == -1
        assert sum(map(int, question[:-1].split('+'))) == int(task['answer'])

  def test_the_question_in_words_ends_in_its_sum(self):
    task = chains.sum_chain(low=7, high=7, num_held_out=0).train[0]
    assert task['messages'][0]['content'].endswith(' 7+7+7=')
    assert judges.arithmetic(task['messages'][0]['content'], '', ['14+7=', '20']) == 1

  @pytest.mark.parametrize('options, message', [
      ({'low': 5, 'high': 4}, 'low is 5 and high is 4'),
      ({'template': '{a}+{b}'}, 'it must hold'),
      ({'low': 1, 'high': 2, 'num_held_out': 8}, 'num_held_out is 8 of 8'),
  ])
  def test_says_what_is_wrong(self, options, message):
    with pytest.raises(ValueError, match=message):
      chains.sum_chain(**options)
