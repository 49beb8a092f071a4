"""Tests of experiments.mistakes; whole command lines are in run_test."""

import pytest

from experiments import mistakes

BASE = 'experiments/configs/base.py'


class TestExplain:

  @pytest.fixture(autouse=True)
  def _root(self, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)

  @pytest.mark.parametrize('argv', [
      ['--config', BASE, '--config.rollout.top_q=1'],
      [f'--config={BASE}', '-config.rollout.top_q=1'],
      [f'--config={BASE}:size=tiny', '--config.rollout.top_q', '1']])
  def test_ways_to_write_a_flag(self, argv):
    sentence = mistakes.explain(KeyError('top_q'), argv)
    assert sentence.startswith(
        "--config.rollout.top_q: config.rollout has no option 'top_q'. Did you mean 'top_")
    assert '\n' not in sentence

  def test_a_fault_that_is_none_of_these_is_as_it_came(self):
    error = ValueError('something else')
    assert mistakes.explain(error, [f'--config={BASE}', '--config.seed=3']) == str(error)

  @pytest.mark.parametrize('flag, right', [
      ('--config.seed=x', 'a whole number, like 0'), ('--config.seed=1.0', 'a whole number'),
      ('--config.rollout.temperature=hot', 'a number, like 1.0'),
      ('--config.score_first=2', 'True or False')])
  def test_a_value_of_the_wrong_type(self, flag, right):
    sentence = mistakes.explain(ValueError(('two', 'parts')), [f'--config={BASE}', flag])
    assert sentence.startswith(f'{flag}: it must be {right}')

  def test_a_config_that_is_no_python(self, tmp_path):
    (tmp_path / 'c.py').write_text('def get_config(:')
    sentence = mistakes.explain(OSError(), [f'--config={tmp_path}/c.py'])
    assert sentence.startswith(f'{tmp_path}/c.py raises SyntaxError: ')


class TestWithoutNumber:

  @pytest.mark.parametrize('error, text', [
      (OSError(28, 'x cannot be written: No space left on device'),
       'x cannot be written: No space left on device'),
      (FileNotFoundError(2, 'No such file', 'name'), "No such file: 'name'"),
      (ValueError('[Errno 3 of my own]'), '[Errno 3 of my own]')])
  def test_worked(self, error, text):
    assert mistakes.without_number(error) == text
