"""Tests of rlvr.envs.from_files."""

import json

import pytest

from rlvr import spec
from rlvr import verifiers
from rlvr.envs import from_files


def _write(path, rows):
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  return str(path)


def _gsm8k(num):
  return [{'question': f'{i} + 1?', 'answer': f'We add.\n#### {i + 1}'} for i in range(num)]


class TestQuestions:

  def test_gsm8k(self, tmp_path):
    path = _write(tmp_path / 'train.jsonl', _gsm8k(10))
    made = from_files.questions(path=path, held_out_fraction=.2, system_prompt='Be brief.')
    assert (len(made.train), len(made.held_out)) == (8, 2)
    task = made.train[0]
    assert task['messages'][0] == {'role': 'system', 'content': 'Be brief.'}
    right = task['answer'].split()[-1]
    assert made.verifier(task, f'#### {right}').reward == 1
    assert made.verifier(task, '#### -1').reward == 0

  def test_math_keeps_other_fields(self, tmp_path):
    path = _write(tmp_path / 'math.jsonl', [
        {'problem': 'Half?', 'solution': r'It is $\boxed{\frac{1}{2}}$.', 'level': 3, 'id': 'x'}])
    made = from_files.questions(
        path=path, question_field='problem', answer_field='solution', held_out_fraction=0.0,
        template='Solve: {question}')
    task = made.train[0]
    assert (task['id'], task['level']) == (0, 3)
    assert task['messages'] == [{'role': 'user', 'content': 'Solve: Half?'}]
    assert made.verifier(task, r'\boxed{0.5}').reward == 1

  def test_held_out_questions_leave_the_training_rows(self, tmp_path):
    rows = _gsm8k(10)
    train = _write(tmp_path / 'train.jsonl', rows + [{'question': ' 3  + 1?', 'answer': '4'}])
    test = _write(tmp_path / 'test.jsonl', rows[3:5])
    made = from_files.questions(path=train, held_out_path=test)
    asked = {task['messages'][0]['content'] for task in made.train}
    assert len(made.train) == 8 and not {'3 + 1?', ' 3  + 1?', '4 + 1?'} & asked
    assert [task['id'] for task in made.held_out] == [8, 9]

  def test_the_split_is_the_seeds(self, tmp_path):
    path = _write(tmp_path / 'train.jsonl', _gsm8k(40))
    parts = [
        [task['messages'][0]['content'] for task in from_files.questions(
            path=path, held_out_fraction=.25, seed=seed).held_out] for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]

  def test_the_verifier_is_a_nested_part(self, tmp_path):
    path = _write(tmp_path / 'train.jsonl', _gsm8k(10))
    cfg = spec.spec(from_files.questions, path=path, verifier=spec.spec(verifiers.last_number))
    cfg.verifier.relative_tolerance = .5
    tables = {
        'env': spec.make_table(from_files.questions), 'verifier': verifiers.VERIFIERS}
    made = spec.resolve(tables, cfg, 'config.env', 'env')()
    assert made.verifier({'answer': '100'}, 'about 110').reward == 1

  @pytest.mark.parametrize('options, message', [
      ({'path': ''}, 'path is empty'),
      ({'held_out_fraction': 1.0}, 'held_out_fraction is 1.0'),
      ({'template': 'Solve.'}, "it must hold '{question}'"),
      ({'held_out_fraction': .9}, 'all 2 rows are held out'),
      ({'held_out_path': 'missing.jsonl'}, 'missing.jsonl does not exist'),
  ])
  def test_says_what_is_wrong(self, tmp_path, options, message):
    path = _write(tmp_path / 'train.jsonl', _gsm8k(2))
    with pytest.raises(ValueError, match=message):
      from_files.questions(**{'path': path, **options})
