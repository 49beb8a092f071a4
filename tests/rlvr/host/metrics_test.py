"""Tests of rlvr.host.metrics."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from absl import logging

from rlvr.host import metrics


@pytest.fixture
def warnings(monkeypatch):
  seen = []
  monkeypatch.setattr(logging, 'warning', lambda form, *args: seen.append(form % args))
  return seen


def lines(tmp_path):
  return (tmp_path / 'metrics.jsonl').read_text().splitlines()


class TestWriter:

  def test_one_line_a_step_of_strict_json(self, tmp_path):
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
      writer.write(1, {'reward': np.float32(0.5), 'length': jnp.float32(3), 'n': 2})
      # Before close: a reader sees whole lines while the run goes on.
      assert metrics.read(tmp_path) == [{'step': 1, 'reward': 0.5, 'length': 3.0, 'n': 2.0}]
      writer.write(2, {'loss': float('nan'), 'a': np.inf, 'b': -np.inf})
    assert lines(tmp_path)[1] == '{"step": 2, "loss": "nan", "a": "inf", "b": "-inf"}'
    for line in lines(tmp_path):
      json.loads(line, parse_constant=lambda name: pytest.fail(f'{name} is no strict JSON'))
    row = metrics.read(tmp_path)[1]
    assert np.isnan(row['loss']) and row['a'] == np.inf and row['b'] == -np.inf
    assert isinstance(row['step'], int)

  def test_bad_metrics_write_nothing(self, tmp_path):
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
      with pytest.raises(ValueError, match="cannot be named 'step'"):
        writer.write(1, {'step': 3.0})
      with pytest.raises(ValueError, match="Metric 'reward' is no scalar"):
        writer.write(1, {'loss': 1.0, 'reward': np.zeros(3)})
    assert lines(tmp_path) == []

  def test_resumed_file_equals_that_of_an_uninterrupted_run(self, tmp_path):
    whole, cut = tmp_path / 'whole', tmp_path / 'cut'
    for folder in (whole, cut):
      folder.mkdir()
      with metrics.Writer(folder, tensorboard=False) as writer:
        for step in range(1, 7 if folder == whole else 6):
          writer.write(step, {'reward': step / 7})
          if step % 2 == 0:
            writer.write(step, {'eval/accuracy': step / 9})
    with (cut / 'metrics.jsonl').open('a') as file:
      file.write('{"step": 6, "rew')  # Killed while it wrote step 6; checkpoint 3 is the last.
    with metrics.Writer(cut, last_step=3, tensorboard=False) as writer:
      assert [row['step'] for row in metrics.read(cut)] == [1, 2, 2, 3]
      for step in range(4, 7):
        writer.write(step, {'reward': step / 7})
        if step % 2 == 0:
          writer.write(step, {'eval/accuracy': step / 9})
    assert (cut / 'metrics.jsonl').read_bytes() == (whole / 'metrics.jsonl').read_bytes()

  def test_a_run_that_starts_again_keeps_no_line(self, tmp_path):
    with metrics.Writer(tmp_path, tensorboard=False) as writer:
      writer.write(0, {'eval/accuracy': 0.0})
      writer.write(1, {'reward': 1.0})
    metrics.Writer(tmp_path, last_step=-1, tensorboard=False).close()
    assert lines(tmp_path) == []

  def test_a_full_disk_leaves_whole_lines(self, tmp_path):
    code = f'''
import resource
from rlvr.host import metrics
writer = metrics.Writer({str(tmp_path)!r}, tensorboard=False)
writer.write(1, {{'reward': 0.5}})
resource.setrlimit(resource.RLIMIT_FSIZE, (50, -1))
try:
  writer.write(2, {{'reward': 0.25, 'a_long_name_to_cross_the_limit': 1.0}})
except OSError as error:
  print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
writer.write(2, {{'reward': 0.25}})
'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert 'metrics.jsonl cannot be written: File too large' in done.stdout
    assert lines(tmp_path) == ['{"step": 1, "reward": 0.5}', '{"step": 2, "reward": 0.25}']

  def test_tensorboard_events(self, tmp_path):
    with metrics.Writer(tmp_path) as writer:
      writer.write(1, {'reward': 0.5})
    files = list((tmp_path / 'tensorboard').iterdir())
    assert len(files) == 1 and b'reward' in files[0].read_bytes()

  def test_a_full_disk_ends_the_events_with_a_sentence(self, tmp_path):
    code = f'''
import resource
from rlvr.host import metrics
writer = metrics.Writer({str(tmp_path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1))
try:
  for step in range(100):
    writer.write(step, {{f'a_rather_long_name_of_a_metric_{{i}}': 1.0 for i in range(2)}})
except OSError as error:
  print(error)
'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60,
                          check=True)
    assert 'tensorboard cannot be written: File too large' in done.stdout
    assert 'Traceback' not in done.stderr

  def test_importing_it_does_not_import_tensorboard(self):
    code = 'import sys, rlvr.host.metrics; sys.exit("tensorboardX" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0


class TestRead:

  @pytest.mark.parametrize('torn', ['{"step": 3, "reward": 0.1', '{"step": 3, "reward": 0.1}',
                                    '{"st', '\ufffd', 'null'])
  def test_a_torn_last_line_is_named_and_never_counted(self, tmp_path, warnings, torn):
    """Also one that parses: 0.1 without its newline may be the start of 0.125."""
    text = '{"step": 1, "reward": 1.0}\n{"step": 2, "reward": 0.0}\n'
    (tmp_path / 'metrics.jsonl').write_text(text + torn)
    rows = metrics.read(tmp_path)
    assert np.mean([row['reward'] for row in rows]) == 0.5
    assert len(warnings) == 1
    assert 'metrics.jsonl: line 3 is torn and skipped' in warnings[0]

  def test_a_whole_file_warns_of_nothing(self, tmp_path, warnings):
    (tmp_path / 'metrics.jsonl').write_text('{"step": 1, "reward": 1.0}\n')
    assert len(metrics.read(tmp_path)) == 1 and not warnings

  @pytest.mark.parametrize('broken', ['{"step": 1, "rew', '{"reward": 1.0}', '[1]', '',
                                      '{"step": 1, "reward": null}'])
  def test_a_broken_line_before_the_last_is_an_error(self, tmp_path, broken):
    (tmp_path / 'metrics.jsonl').write_text(f'{broken}\n{{"step": 2, "reward": 1.0}}\n')
    with pytest.raises(ValueError, match='line 1 is no metrics row'):
      metrics.read(tmp_path)

  def test_no_file_is_named(self, tmp_path):
    with pytest.raises(ValueError, match='has no metrics.jsonl'):
      metrics.read(tmp_path)
    assert os.listdir(tmp_path) == []
