"""Tests of rlvr.verifiers.gym_answers."""

import pytest

from rlvr.verifiers import gym_answers

_SUM = {
    'answer': '5', 'dataset': 'chain_sum',
    'entry': {'question': '2 + 3', 'answer': '5', 'metadata': {}}}


def _task(name, **options):
  return {
      'answer': '', 'dataset': name,
      'entry': gym_answers.make_dataset(name, '{}', size=1, seed=0, **options)[0]}


class TestReasoningGymScore:

  def test_the_last_closed_tag_is_scored(self):
    text = '<answer>4</answer> no, <answer>5</answer>'
    result = gym_answers.reasoning_gym_score(_SUM, text)
    assert (result.reward, dict(result.columns), result.answer) == (1.0, {'solved': 1.0}, '5')
    assert gym_answers.reasoning_gym_score(_SUM, '5').reward == 1
    assert gym_answers.reasoning_gym_score(_SUM, '<answer>4</answer>').reward == 0

  def test_a_partial_score_is_the_data_sets_and_can_be_refused(self):
    text = '<answer>5 or 6</answer>'
    assert 0 < gym_answers.reasoning_gym_score(_SUM, text).reward < 1
    assert gym_answers.reasoning_gym_score(_SUM, text, solved_only=True).reward == 0

  def test_a_scorer_that_pays_any_text_is_not_used(self):
    task = _task('game_of_life_halting')
    assert gym_answers.reasoning_gym_score(task, task['entry']['answer']).reward == 1
    for text in ('garbage', {'True': 'False', 'False': 'True'}[task['entry']['answer']]):
      assert gym_answers.reasoning_gym_score(task, text).reward == 0

  def test_statuses(self):
    score = gym_answers.reasoning_gym_score
    assert score(_SUM, ' ').status == 'no_answer'
    assert score({'answer': '5'}, '5').status == 'bad_gold'
    assert score({**_SUM, 'dataset': 'chain_sun'}, '5').status == 'bad_gold'
    # This scorer raises on words; it reads its own answer, so the text is to blame.
    result = score(_task('prime_factorization'), '<answer>garbage</answer>')
    assert (result.status, result.graded) == ('bad_text', True)
    assert score({**_SUM, 'entry': {'answer': '5'}}, '5').status == 'bad_gold'
    # And this one cannot read the reference either.
    broken = _task('rubiks_cube')
    broken['entry'] = {**broken['entry'], 'answer': 'R', 'metadata': {}}
    assert score(broken, "<answer>U</answer>").status == 'bad_gold'

  @pytest.mark.parametrize('attack', [
      'exec("raise SystemExit")', 'open ("f", "w")', '().__class__',
      '\uff45xec("1")'])  # a full-width e, which Python reads as e
  def test_code_in_an_answer_is_not_evaluated(self, attack):
    result = gym_answers.reasoning_gym_score(_task('countdown'), attack)
    assert (result.reward, result.status) == (0, 'bad_text')


class TestMakeDataset:

  @pytest.mark.parametrize('name, options, message', [
      ('chain_sun', '{}', "Did you mean 'chain_sum'"),
      ('chain_sum', 'max_terms=3', 'is not JSON'),
      ('chain_sum', '[3]', 'write a JSON object'),
      ('chain_sum', '{"max_term": 3}', 'refuses size 1'),
      ('composite', '{}', 'Must specify at least one dataset'),
  ])
  def test_says_what_is_wrong(self, name, options, message):
    with pytest.raises(ValueError, match=message):
      gym_answers.make_dataset(name, options, size=1, seed=0)
