"""Tests of rlvr.host.run_dir."""

import json
import os
import subprocess
import sys

import ml_collections
import numpy as np
import pytest

from rlvr.host import run_dir

_CONFIG = {'advantage': {'name': 'grpo', 'eps': 1e-6}, 'num_steps': 10, 'sizes': (1, 2)}


class TestOpenRun:

  def test_a_new_folder_gets_its_config(self, tmp_path):
    path, continued = run_dir.open_run(tmp_path / 'a' / 'b', _CONFIG)
    assert not continued and path == tmp_path / 'a' / 'b'
    assert run_dir.read_config(path) == {**_CONFIG, 'sizes': [1, 2]}
    assert os.listdir(path) == ['config.json']

  def test_the_same_config_continues(self, tmp_path):
    run_dir.open_run(tmp_path, _CONFIG)
    (tmp_path / 'metrics.jsonl').write_text('')
    _, continued = run_dir.open_run(tmp_path, ml_collections.ConfigDict(_CONFIG))
    assert continued and (tmp_path / 'metrics.jsonl').exists()

  def test_another_config_is_refused_in_one_sentence(self, tmp_path):
    run_dir.open_run(tmp_path, _CONFIG)
    other = {**_CONFIG, 'advantage': {'name': 'rloo'}}
    with pytest.raises(ValueError, match='advantage.eps is 1e-06 there and absent in this config'):
      run_dir.open_run(tmp_path, other)
    other = {**_CONFIG, 'advantage': {'name': 'rloo', 'eps': 1e-6}}
    with pytest.raises(ValueError, match='advantage.name is "grpo" there and "rloo" in this'):
      run_dir.open_run(tmp_path, other)
    assert run_dir.read_config(tmp_path)['advantage']['name'] == 'grpo'

  def test_true_is_not_1(self, tmp_path):
    run_dir.open_run(tmp_path, {'a': 1})
    with pytest.raises(ValueError, match='a is 1 there and true in this config'):
      run_dir.open_run(tmp_path, {'a': True})

  def test_fields_that_may_differ_are_written(self, tmp_path):
    run_dir.open_run(tmp_path, _CONFIG)
    longer = {**_CONFIG, 'num_steps': 20}
    with pytest.raises(ValueError, match='num_steps is 10 there and 20'):
      run_dir.open_run(tmp_path, longer)
    run_dir.open_run(tmp_path, longer, may_differ=('num_steps',))
    assert run_dir.read_config(tmp_path)['num_steps'] == 20

  def test_infinite_and_nan_options_continue(self, tmp_path):
    config = {'high': float('inf'), 'low': float('nan'), 'x': np.float32(0.5)}
    run_dir.open_run(tmp_path, config)
    assert run_dir.open_run(tmp_path, config)[1]
    json.loads((tmp_path / 'config.json').read_text(), parse_constant=pytest.fail)

  def test_a_run_without_its_config_is_refused(self, tmp_path):
    (tmp_path / 'metrics.jsonl').write_text('')
    with pytest.raises(ValueError, match='holds metrics.jsonl of a run but no config.json'):
      run_dir.open_run(tmp_path, _CONFIG)

  def test_a_log_beside_is_no_run(self, tmp_path):
    (tmp_path / 'stderr.txt').write_text('')
    assert not run_dir.open_run(tmp_path, _CONFIG)[1]

  def test_a_file_is_no_folder(self, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(OSError, match='file is a file; name a folder'):
      run_dir.open_run(tmp_path / 'file', _CONFIG)
    with pytest.raises(OSError, match='file/run cannot be made: Not a directory'):
      run_dir.open_run(tmp_path / 'file' / 'run', _CONFIG)

  @pytest.mark.skipif(os.getuid() == 0, reason='root may write anywhere')
  def test_an_unwritable_folder(self, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match='config.json cannot be written: Permission denied'):
      run_dir.open_run(tmp_path, _CONFIG)

  def test_a_leaf_that_is_no_json(self, tmp_path):
    with pytest.raises(ValueError, match=r'config\.a\.b = .* does not fit JSON'):
      run_dir.open_run(tmp_path / 'run', {'a': {'b': object()}})
    assert not (tmp_path / 'run').exists()

  def test_a_folder_that_is_no_run(self, tmp_path):
    with pytest.raises(ValueError, match='is no run folder: it has no config.json'):
      run_dir.read_config(tmp_path)


class TestWriteAtomic:

  def test_a_full_disk_keeps_the_old_content_and_no_remains(self, tmp_path):
    code = f'''
import pathlib, resource
from rlvr.host import run_dir
path = pathlib.Path({str(tmp_path)!r}) / 'config.json'
run_dir.write_atomic(path, 'old')
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1))
try:
  run_dir.write_atomic(path, 'new' * 1000)
except OSError as error:
  print(error)
'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert 'config.json cannot be written: File too large' in done.stdout
    assert os.listdir(tmp_path) == ['config.json']
    assert (tmp_path / 'config.json').read_text() == 'old'


class TestRollouts:

  def test_round_trip_of_hostile_text(self, tmp_path):
    rows = [
        {'prompt': 'a\nb\u2028c', 'completion': '\ud800 \x1b[31m é', 'reward': np.float32(0.5)},
        {'prompt': '', 'completion': '', 'reward': float('nan'), 'ids': np.arange(2)}]
    path = run_dir.write_rollouts(tmp_path, 12, rows)
    assert path.name == 'step_000012.jsonl'
    assert os.listdir(tmp_path / 'rollouts') == ['step_000012.jsonl']
    found = run_dir.read_rollouts(tmp_path, 12)
    assert found[0] == {**rows[0], 'reward': 0.5}
    assert found[1]['reward'] == 'nan' and found[1]['ids'] == [0, 1]

  def test_steps_and_what_a_resume_drops(self, tmp_path):
    assert run_dir.rollout_steps(tmp_path) == []
    for step in (1, 10, 2, 1_234_567):
      run_dir.write_rollouts(tmp_path, step, [])
    (tmp_path / 'rollouts' / '.step_000003.jsonl.7.tmp').write_text('{')
    assert run_dir.rollout_steps(tmp_path) == [1, 2, 10, 1_234_567]
    run_dir.drop_rollouts_after(tmp_path, 2)
    assert run_dir.rollout_steps(tmp_path) == [1, 2]
    with pytest.raises(ValueError, match='no rollouts of step 7; it has 1 to 2, 2 files'):
      run_dir.read_rollouts(tmp_path, 7)


class TestForeignFiles:

  @pytest.mark.parametrize('text', ['[]', '{"model_type": "llama"}'])
  def test_a_config_of_something_else(self, tmp_path, text):
    (tmp_path / 'config.json').write_text(text)
    with pytest.raises(ValueError, match='is no config of a run'):
      run_dir.read_config(tmp_path)

  @pytest.mark.parametrize('line', ['{"reward": 1', '[1, 2]'])
  def test_a_broken_line_of_rollouts_is_named(self, tmp_path, line):
    path = run_dir.write_rollouts(tmp_path, 3, [{'reward': 1.0}])
    path.write_text(path.read_text() + line + '\n')
    with pytest.raises(ValueError, match='step_000003.jsonl: line 2 is no JSON object'):
      run_dir.read_rollouts(tmp_path, 3)
