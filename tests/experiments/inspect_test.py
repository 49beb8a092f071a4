"""Tests of experiments.inspect."""

import subprocess
import sys

import pytest

from experiments import inspect
from rlvr.host import metrics
from rlvr.host import run_dir


def command(*args, **kwargs):
  return subprocess.run([sys.executable, '-m', 'experiments.inspect', *args],
                        capture_output=True, text=True, check=False, **kwargs)


@pytest.fixture
def run(tmp_path):
  path, _ = run_dir.open_run(tmp_path / 'run', {'advantage': {'name': 'grpo'}, 'lr': 1e-3})
  with metrics.Writer(path, tensorboard=False) as writer:
    for step in range(1, 31):
      writer.write(step, {'reward': step / 30, 'length': 10.0})
      if step % 10 == 0:
        writer.write(step, {'eval/accuracy': 0.25})
  run_dir.write_rollouts(path, 30, [
      {'prompt': f'What is {i}+1?', 'completion': f'It is {i + 1}.', 'answer': str(i + 1),
       'gold': '2', 'reward': reward, 'status': 'graded', 'length': 10 * i}
      for i, reward in enumerate([0.0, 1.0, float('nan'), 0.5])])
  return path


class TestSummary:

  def test_config_and_table(self, run):
    text = inspect.summary(str(run), limit=3, width=80)
    lines = text.splitlines()
    assert lines[1] == 'advantage=grpo'
    assert lines[2] == '30 steps; rollouts kept: 1 files, steps 30 to 30'
    assert '3 of 30 steps, evenly spread; --limit=30 for all' in lines
    assert [line.split() for line in lines[-4:]] == [
        ['step', 'reward', 'length', 'eval/accuracy', 'rollouts'],
        ['10', '0.3333', '10', '0.25'], ['20', '0.6667', '10', '0.25'],
        ['30', '1', '10', '0.25', 'yes']]

  def test_before_the_first_step(self, tmp_path):
    run_dir.open_run(tmp_path, {'a': 1})
    assert 'No step has ended yet.' in inspect.summary(str(tmp_path), limit=3, width=80)


class TestRollouts:

  def show(self, run, **options):
    options = {'sort': None, 'descending': False, 'limit': 5, 'width': 80, **options}
    return inspect.rollouts(str(run), options.pop('step', 30), **options)

  def order(self, text):
    return [int(line.split()[2]) for line in text.splitlines() if line.startswith('-- rollout')]

  def test_a_block_a_row(self, run):
    text = self.show(run, limit=1)
    assert text.startswith('step 30: 4 rollouts, mean reward 0.500 of 3; 1 shown\n\n')
    assert text.endswith(
        '[prompt]\nWhat is 0+1?\n[completion]\nIt is 1.\n[answer] 1\n[gold] 2\n'
        'reward 0  status graded  length 0')

  def test_orders_put_what_has_no_number_last(self, run):
    assert self.order(self.show(run, step=-1)) == [0, 1, 2, 3]
    assert self.order(self.show(run, sort='reward', descending=True)) == [1, 3, 0, 2]
    assert self.order(self.show(run, sort='reward')) == [0, 3, 1, 2]
    assert self.order(self.show(run, sort='length', descending=True, limit=2)) == [3, 2]
    assert self.order(self.show(run, sort='answer', descending=True)) == [3, 2, 1, 0]

  def test_unknown_field_and_step(self, run):
    with pytest.raises(ValueError, match="no field|no rollout has a field 'rewards'. Did you mean"):
      self.show(run, sort='rewards')
    with pytest.raises(ValueError, match='no rollouts of step 3; it has 30 to 30'):
      self.show(run, step=3)

  def test_hostile_text_cannot_act_on_the_terminal(self, run):
    hostile = '\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\b\ud800'
    row = dict.fromkeys(('prompt', 'completion', 'answer', 'gold', 'status'), hostile)
    run_dir.write_rollouts(run, 31, [{**row, 'reward': 1.0}])
    for text in (self.show(run, step=31), command(str(run), '--step=31').stdout):
      assert text.count(r'\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\x08\ud800') == 5
      assert all(c.isprintable() or c == '\n' for c in text)


class TestSpread:

  def test_always_the_last(self):
    assert inspect.spread([1, 2, 3, 4, 5], 2) == [2, 5]
    assert inspect.spread([1, 2], 5) == [1, 2]
    assert inspect.spread([], 5) == []


class TestMain:

  def test_a_folder_that_is_no_run_is_one_sentence(self, tmp_path):
    for args in ([str(tmp_path)], [str(tmp_path), '--step=1'], [str(tmp_path / 'none')]):
      done = command(*args)
      assert done.returncode == 2 and done.stdout == ''
      assert len(done.stderr.splitlines()) == 1
      assert 'is no run folder: it has no config.json' in done.stderr

  def test_worst_of_the_last_step_without_utf8(self, run):
    run_dir.write_rollouts(run, 31, [{'prompt': '漢', 'completion': 'é', 'reward': 1.0}])
    done = command(str(run), '--worst', '--limit=1', env={'PYTHONIOENCODING': 'ascii'})
    assert done.returncode == 0, done.stderr
    assert r'\u6f22' in done.stdout and 'by reward ascending' in done.stdout

  def test_contradicting_orders(self, run):
    done = command(str(run), '--worst', '--best')
    assert done.returncode != 0
    assert 'Give one of --best, --worst and --sort' in done.stdout + done.stderr

  def test_a_closed_pipe_is_quiet(self, run):
    done = subprocess.run(
        f'{sys.executable} -m experiments.inspect {run} | true', shell=True, capture_output=True,
        text=True, check=False)
    assert done.stderr == ''
