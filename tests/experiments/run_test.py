"""Tests of experiments.run: what a user gets wrong, and what a command leaves behind."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import commands  # noqa: E402

GOLDEN = commands.ROOT / 'tests' / 'golden'
GRPO = 'experiments/configs/grpo.py'
TINY = f'--config={GRPO}:size=tiny'
SMALL = ('--config.num_steps=2', '--config.eval.prompts=0', '--config.log.tensorboard=False',
         '--config.model.warm_start_steps=0', '--config.rollout.prompts=2',
         '--config.rollout.responses=4')


@pytest.fixture(name='server', scope='module')
def _server():
  with commands.Commands() as server:
    yield server


@pytest.fixture(name='command')
def _command(server, tmp_path):
  """command(*args) runs one; its run folder, where args name none, is tmp_path / 'run'."""
  def command(*args, run_dir=tmp_path / 'run', **options):
    streams = tmp_path / f'streams_{len(list(tmp_path.iterdir()))}'
    streams.mkdir()
    return server.run(streams, *args, *([f'--config.run_dir={run_dir}'] if run_dir else []),
                      **options)
  return command


def one_sentence(done, *parts):
  """Asserts that a command failed with one line that holds the parts."""
  assert done.code == 1, done
  lines = done.error.strip().splitlines()
  said = [line for line in lines if line.startswith('error: ')]
  assert len(said) == 1 and said[0] == lines[-1], done.error
  assert 'Traceback' not in done.error and 'Errno' not in said[0]
  for part in parts:
    assert part in said[0], said[0]


def refused(done, folder, *parts):
  """Asserts that a command failed before it wrote anything."""
  one_sentence(done, *parts)
  assert len(done.error.strip().splitlines()) == 1, done.error
  assert not folder.exists()


class TestCommandLine:

  @pytest.mark.parametrize('args, parts', [
      ((), ('the config is missing', 'quickstart.py')),
      (('--config=experiments/configs/grrpo.py',),
       ('no config file experiments/configs/grrpo.py', "Did you mean 'grpo.py'?")),
      (('--config=nowhere/x.py',), ('no config file nowhere/x.py',)),
      ((TINY, '--config.foo=1'), ('--config.foo', "no option 'foo'", 'num_steps')),
      ((TINY, '--config.rollout.respones=4'),
       ("config.rollout has no option 'respones'", "Did you mean 'responses'?", 'max_tokens')),
      ((TINY, '--config.advantage.dof=1'), ("no option 'dof'", "Did you mean 'ddof'?")),
      ((TINY, '--config.seed.x=1'), ('config.seed is a value',)),
      ((TINY, '--config.advantage=rloo'), ('is a section', ':advantage=NAME')),
      (('--config=',), ('the config is missing',)),
      ((TINY, '--config.num_steps=abc'), ('--config.num_steps=abc', 'a whole number')),
      ((TINY, '--config.num_steps=1.5'), ('--config.num_steps=1.5', 'a whole number')),
      ((TINY, '--config.score_first=maybe'), ('--config.score_first=maybe', 'True or False')),
      ((TINY, '--config.optimizer.learning_rate=fast'), ('learning_rate=fast',)),
      ((TINY, '--confg.seed=1'), ("Unknown command line flag 'confg.seed'",)),
      ((TINY, 'extra'), ("Unexpected arguments ['extra']",)),
      ((TINY + ',advantage=grppo',), ('config.advantage', "Did you mean 'grpo'?")),
      ((TINY + ',losses.kl=kl_los',), ('config.losses.kl', "Did you mean 'kl_loss'?")),
      ((TINY + ',rollout.prompts=2',), ('config.rollout.prompts', 'no part')),
      ((TINY + ',batch=grpo',), ('section of options, not a part',)),
      ((f'--config={GRPO}:size=huge',), ("size is 'huge'", 'full, tiny')),
      ((f'--config={GRPO}:tiny',), ('no NAME=VALUE',)),
  ])
  def test_one_sentence_that_names_what_is_known(self, command, tmp_path, args, parts):
    refused(command(*args), tmp_path / 'run', *parts)

  def test_a_config_file_with_a_fault_of_its_own(self, command, tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text('def get_config(arg):\n  return {}[arg]\n')
    refused(command(f'--config={path}:x'), tmp_path / 'run', 'mine.py raises KeyError')

  def test_the_module_itself_exits_with_the_code(self, tmp_path):
    done = subprocess.run(
        [sys.executable, '-m', 'experiments.run', TINY, '--config.foo=1'], cwd=commands.ROOT,
        capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ''
    assert done.stderr.startswith("error: --config.foo: config has no option 'foo'.")


  def test_another_distributions_kernels(self, tmp_path):
    (tmp_path / 'kernels.py').write_text('')
    done = subprocess.run(
        [sys.executable, '-m', 'experiments.run', TINY], cwd=tmp_path, capture_output=True,
        text=True, check=False, env=os.environ | {'PYTHONPATH': str(commands.ROOT)})
    assert done.returncode == 1 and done.stdout == ''
    assert done.stderr.startswith('error: The package "kernels" at ')
    assert str(tmp_path) in done.stderr and 'Traceback' not in done.stderr


class TestConfigsThatCannotRun:

  @pytest.mark.parametrize('args, parts', [
      (('--config.rollout.responses=1', '--config.eval.pass_at=(1,)'),
       ('config.rollout.responses is 1', "'grpo'", 'at least 2')),
      (('--config.batch.cell_rows=4',), ('config.batch.cell_rows is 4', '8 responses')),
      (('--config.eval.pass_at=(1,8)',), ('config.eval.pass_at', 'k is at most 7')),
      (('--config.eval.pass_at=("a",)',), ('config.eval.pass_at', 'whole numbers')),
      (('--config.rollout.prompt_buckets=(16,8)',), ('prompt_buckets', 'ascending')),
      (('--config.rollout.prompt_buckets=("a",)',), ('prompt_buckets', 'whole numbers')),
      (('--config.rollout.temperature=0',), ('config.rollout.temperature is 0',)),
      (('--config.rollout.slots_per_prompt=7',), ('config.rollout.slots', 'multiple')),
      (('--config.optimizer.learning_rate=-1',), ('learning_rate=-1',)),
      (('--config.optimizer.learning_rate=nan',), ('optimizer.learning_rate is nan', 'finite')),
      (('--config.checkpoint.keep=0',), ('config.checkpoint.keep is 0', 'at least 1')),
      (('--config.verify.deadline_seconds=0',), ('verify.deadline_seconds is 0', 'above 0')),
      (('--config.rollout.top_k=-1',), ('config.rollout.top_k is -1', 'at least 0')),
      (('--config.rollout.top_p=0',), ('config.rollout.top_p is 0', 'at most 1')),
      (('--config.rollout.min_p=2',), ('config.rollout.min_p is 2', 'below 1')),
      (('--config.seed=-1',), ('config.seed is -1', 'at least 0')),
      (('--config.seed=99999999999999',), ('config.seed is 9', 'below 2**31')),
      (('--config.losses.pg.term.clip.low=-1',), ('low=-1',)),
      (('--config.advantage.name=rloo',), ("rloo has no option 'ddof'", ':advantage=rloo')),
      (('--config.advantage.name=grpoo',), ("Did you mean 'grpo'?",)),
      (('--config.rollout.prompt_buckets=(4,)',),
       ('The prompt of task 0 has 5 tokens', 'largest bucket 4')),
  ])
  def test_one_sentence_before_anything_is_written(self, command, tmp_path, args, parts):
    refused(command(TINY, *args), tmp_path / 'run', *parts)

  @pytest.mark.parametrize('part', ['reward=kl_in_reward', 'reward.base=kl_in_reward'])
  def test_a_penalty_that_reads_scores_names_the_option(self, command, tmp_path, part):
    done = command(f'--config=experiments/configs/dapo.py:size=tiny,{part}')
    refused(done, tmp_path / 'run', '--config.score_first=True')


class TestModelsAndData:

  def _with_model(self, command, path):
    return command(TINY, f'--config.model.path={path}')

  def test_a_missing_model(self, command, tmp_path):
    refused(self._with_model(command, tmp_path / 'x.gguf'), tmp_path / 'run', 'x.gguf does not')
    refused(self._with_model(command, 'package:no_such_thing'), tmp_path / 'run',
            'no_such_thing is not installed')

  def test_a_truncated_model(self, command, tmp_path):
    shutil.copytree(GOLDEN / 'tiny_qwen3', tmp_path / 'model')
    weights = tmp_path / 'model' / 'model.safetensors'
    weights.write_bytes(weights.read_bytes()[:-1000])
    refused(self._with_model(command, tmp_path / 'model'), tmp_path / 'run', 'model.safetensors')
    (tmp_path / 'x.gguf').write_bytes(b'GGUF\x03\x00\x00\x00' + bytes(5))
    refused(self._with_model(command, tmp_path / 'x.gguf'), tmp_path / 'run', 'x.gguf')

  def test_a_vocabulary_that_does_not_fit(self, command, tmp_path):
    model = tmp_path / 'model'
    shutil.copytree(GOLDEN / 'tiny_qwen3', model)
    words = json.loads((model / 'tokenizer.json').read_text())
    rows = json.loads((model / 'config.json').read_text())['vocab_size']
    words['added_tokens'].append(words['added_tokens'][-1] | {'id': rows + 7, 'content': '<x>'})
    words['model']['vocab'] |= {f'<x{i}>': rows + i for i in range(8)}
    (model / 'tokenizer.json').write_text(json.dumps(words))
    refused(self._with_model(command, model), tmp_path / 'run', 'embedding', str(rows))

  @pytest.mark.parametrize('lines, parts', [
      ('', ('holds no rows',)),
      ('{"question": "1+1?", "answer": "2"}\n{"question": "x"', ('line 2 is not JSON',)),
      ('{"question": "1+1?", "answer": "2"}\n\n', ('line 2 is blank',)),
      ('{"question": "1+1?"}\n', ('line 1', "no field 'answer'")),
      ('{"question": "1?", "answer": "2"}\n{"question": " ", "answer": "2"}\n', ('line 2',)),
  ])
  def test_a_malformed_line_is_named_by_its_number(self, command, tmp_path, lines, parts):
    path = tmp_path / 'data.jsonl'
    path.write_text(lines)
    done = command(f'{TINY},env=questions', f'--config.env.path={path}')
    refused(done, tmp_path / 'run', 'data.jsonl', *parts)

  def test_a_missing_data_file(self, command, tmp_path):
    done = command(f'{TINY},env=questions', '--config.env.path=/nowhere.jsonl')
    refused(done, tmp_path / 'run', '/nowhere.jsonl does not exist')


  def test_questions_that_the_verifier_cannot_grade(self, command, tmp_path):
    path = tmp_path / 'data.jsonl'
    path.write_text(''.join(
        f'{{"question": "1+{i}?", "answer": "#### {1 + i}"}}\n' for i in range(6)))
    done = command(f'{TINY},env=questions,env.verifier=python_tests', f'--config.env.path={path}')
    refused(done, tmp_path / 'run', 'none of the first', 'bad_gold', 'env.verifier=NAME')


class TestRunFolder:

  def test_another_process_writes_there(self, command, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    one_sentence(command(TINY, *SMALL, run_dir=tmp_path), 'is in use by another process')
    os.close(folder)
    assert not (tmp_path / 'config.json').exists()

  def test_no_place_at_all(self, command, tmp_path):
    refused(command(TINY, *SMALL, '--config.run_dir=', run_dir=''), tmp_path / 'run',
            'run_dir is empty')

  def test_a_file_in_its_place(self, command, tmp_path):
    path = tmp_path / 'file'
    path.write_text('mine')
    one_sentence(command(TINY, *SMALL, run_dir=path), 'is a file')
    one_sentence(command(TINY, *SMALL, run_dir=path / 'run'), 'cannot be made')
    assert path.read_text() == 'mine'

  def test_a_place_that_cannot_be_written(self, command):
    one_sentence(command(TINY, *SMALL, run_dir='/proc/run'), '/proc/run cannot be made')

  def test_a_full_disk_leaves_whole_files(self, command, tmp_path):
    """Files over the limit fail as on a full disk: first the rollouts, then a checkpoint."""
    one_sentence(command(TINY, *SMALL, file_bytes=1200), 'config.json cannot be written')
    assert not list((tmp_path / 'run').glob('checkpoints/*'))
    path = tmp_path / 'second'
    done = command(TINY, *SMALL, run_dir=path, file_bytes=64 << 10)
    one_sentence(done, 'Checkpoint 2 cannot be written')
    assert list((path / 'checkpoints').iterdir()) == []
    rows = [json.loads(line) for line in (path / 'metrics.jsonl').read_text().splitlines()]
    assert [row['step'] for row in rows] == [1, 2]

  @pytest.mark.slow
  def test_continued_refused_and_interrupted(self, command, server, tmp_path):
    run = tmp_path / 'run'
    first = command(TINY, *SMALL)
    assert first.code == 0 and first.out.strip() == f'The run of 2 steps is in {run}', first.error
    assert {p.name for p in run.iterdir()} == {
        'checkpoints', 'config.json', 'metrics.jsonl', 'metrics.png', 'rollouts'}
    before = (run / 'config.json').read_bytes()

    # Another config in the same folder.
    one_sentence(command(TINY, *SMALL, '--config.seed=1'), 'holds another run', 'seed is 0')
    assert (run / 'config.json').read_bytes() == before

    # A checkpoint of another config in a folder that looks right.
    other = tmp_path / 'other'
    assert command(TINY, *SMALL, '--config.seed=1', '--config.num_steps=0', run_dir=other).code == 0
    shutil.copytree(run / 'checkpoints', other / 'checkpoints')
    one_sentence(command(TINY, *SMALL, '--config.seed=1', run_dir=other),
                 'of another config', 'seed is 0')

    # Ctrl-C while the run goes on, after more steps were asked for.
    streams = tmp_path / 'streams'
    streams.mkdir()
    more = [a for a in SMALL if 'num_steps' not in a] + ['--config.num_steps=100000']
    pid = server.start(streams, TINY, *more, f'--config.run_dir={run}')
    end = time.monotonic() + 120
    while '"step": 4,' not in (run / 'metrics.jsonl').read_text():
      assert time.monotonic() < end
      time.sleep(.02)
    os.kill(pid, signal.SIGINT)
    done = server.wait(streams)
    assert done.code == 130 and 'Traceback' not in done.error, done.error
    steps = [json.loads(line)['step'] for line in (run / 'metrics.jsonl').read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    assert (run / 'checkpoints' / str(steps[-1])).is_dir()

  def test_ctrl_c_before_the_loop(self, server, tmp_path):
    streams = tmp_path / 'streams'
    streams.mkdir()
    pid = server.start(streams, TINY, '--config.model.warm_start_steps=1000000',
                       f'--config.run_dir={tmp_path / "run"}')
    while not (tmp_path / 'run' / 'config.json').exists():
      time.sleep(.01)
    time.sleep(.5)
    os.kill(pid, signal.SIGINT)
    done = server.wait(streams)
    assert done.code == 130 and 'Traceback' not in done.error
    assert done.error.strip().splitlines()[-1].startswith('interrupted: the same command')
    assert {p.name for p in (tmp_path / 'run').iterdir()} == {'config.json'}
