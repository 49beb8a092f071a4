"""Tests of experiments.dry_run."""

import pathlib
import re
import sys

import pytest

from experiments import dry_run
from experiments.configs import base

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import commands  # noqa: E402


@pytest.fixture(name='report', scope='module')
def _report():
  return dry_run.report(base.get_config('size=tiny'))


class TestReport:

  @pytest.mark.parametrize('line', [
      r'environment +addition of 0\.\.9: 84 to train on, 16 held out',
      r"model +.*family='llama', vocab_size=259, num_layers=2, d_model=32",
      # 259 * 32 embeddings, 2 layers of 12,288 + 3,072 weights and 64 norms, 32 of the last norm.
      r'parameters +39,168 \(153\.0 KiB in f32\)',
      r'state +459\.0 KiB',  # params and Adam's two moments
      r'rollout +8 prompts x 8 responses = 64 rows, up to 16 \+ 4 tokens',
      r'sampler +64 slots; K/V 96\.0 KiB',  # 2 * 2 layers * 16 * 4 B * (64 * 4 + 8 * 16)
      r'cells +1 devices x 4 x 16 rows, 2 prompts each',
      r'update +[\d.]+ [KM]iB of temporaries',
      r'in f32 would be 259\.0 KiB',  # 64 * 4 * 259 * 4 B
      r'to compile +sampler, prepare and update once for each prompt bucket met of \(8, 16\)',
  ])
  def test_names(self, report, line):
    assert re.search(line, report), report


class TestCommand:

  def test_runs_nothing(self, tmp_path):
    with commands.Commands() as server:
      done = server.run(tmp_path, '--config=experiments/configs/dapo.py:size=tiny', '--dry_run',
                        f'--config.run_dir={tmp_path / "run"}')
    assert done.code == 0, done.error
    assert done.out.startswith('environment ') and len(done.out.splitlines()) == 9
    assert not (tmp_path / 'run').exists()

  def test_says_what_a_run_would_refuse(self, tmp_path):
    with commands.Commands() as server:
      done = server.run(tmp_path, '--config=experiments/configs/dapo.py:size=tiny', '--dry_run',
                        '--config.batch.cell_rows=1')
    assert done.code == 1 and done.error.startswith('error: config.batch.cell_rows is 1')
