"""Tests of rlvr.host.loop: continued runs equal unbroken ones, and what a run survives."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time

import jax
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[3]
HELPERS = ROOT / 'tests' / 'experiments'
sys.path.insert(0, str(HELPERS))

import paying_verifiers  # noqa: E402 - found through the line above, in the workers too
import small_run  # noqa: E402

from rlvr.host import checkpoint  # noqa: E402
from rlvr.host import interrupt  # noqa: E402
from rlvr.host import metrics as metrics_lib  # noqa: E402
from rlvr.host import run_dir  # noqa: E402

NUM_STEPS = small_run.NUM_STEPS
_SECONDS = 180  # for a process on a busy machine


def _start(folder, mode):
  environment = os.environ | {'PYTHONPATH': f'{ROOT}{os.pathsep}{HELPERS}'}
  return subprocess.Popen(
      [sys.executable, str(HELPERS / 'small_run.py'), str(folder), mode], env=environment,
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _end(process):
  """(exit code, stderr) of a process that ends by itself."""
  try:
    _, error = process.communicate(timeout=_SECONDS)
  finally:
    process.kill()
  return process.returncode, error


def _file_id(path):
  return path.stat().st_ino if path.exists() else None


def _wait_for_step(process, folder, step, old_id):
  """Waits until this process has logged `step`; the file of the process before has `old_id`."""
  path, end = folder / run_dir.METRICS, time.monotonic() + _SECONDS
  while time.monotonic() < end and process.poll() is None:
    if path.exists() and _file_id(path) != old_id and f'"step": {step},' in path.read_text():
      return
    time.sleep(.01)
  raise AssertionError(f'step {step} never came:\n{process.communicate(timeout=5)[1]}')


def _latest(folder):
  steps = [int(p.name) for p in (folder / run_dir.CHECKPOINTS).iterdir() if p.name.isdecimal()]
  return max(steps, default=0)


def _lines(folder):
  """The lines of metrics.jsonl without wall times."""
  rows = [json.loads(line) for line in (folder / run_dir.METRICS).read_text().splitlines()]
  timed = lambda name: name.startswith(('seconds', 'tokens_per_second'))
  return [{name: x for name, x in row.items() if not timed(name)} for row in rows]


@pytest.fixture(name='broken', scope='module')
def _broken(tmp_path_factory):
  """A run that was stopped in four ways, and what its processes said."""
  folder, said = tmp_path_factory.mktemp('broken') / 'run', {}
  process = _start(folder, 'slow')
  _wait_for_step(process, folder, 4, None)
  time.sleep(random.random() * .8)  # anywhere in a step: sampling, grading, learning or logging
  process.kill()
  said['kill'] = (*_end(process), _latest(folder))
  said['kill in save'] = (*_end(_start(folder, 'die in save')), _latest(folder))
  for number in (signal.SIGTERM, signal.SIGINT):
    old_id, step = _file_id(folder / run_dir.METRICS), _latest(folder) + 1
    process = _start(folder, 'slow')
    _wait_for_step(process, folder, step, old_id)
    process.send_signal(number)
    said[number.name] = (*_end(process), _latest(folder), step, _lines(folder)[-1]['step'])
  said['end'] = _end(_start(folder, 'plain'))
  return folder, said


@pytest.fixture(name='unbroken', scope='module')
def _unbroken(tmp_path_factory):
  """The same run, never stopped."""
  folder = tmp_path_factory.mktemp('unbroken') / 'run'
  code, error = _end(_start(folder, 'plain'))
  assert code == 0, error
  return folder


def _state(folder):
  """(state, cursor) of the last checkpoint, keys as numbers."""
  run = small_run.make(small_run.config(folder))
  saved = checkpoint.Checkpointer(folder / run_dir.CHECKPOINTS, fingerprint=run.fingerprint)
  state, cursor = saved.restore(run.init())
  return state.replace(key=jax.random.key_data(state.key)), cursor


@pytest.mark.slow
class TestContinuedRun:
  """k steps + kill + the other steps = all steps, with the sampled tokens (faults 43 and 44)."""

  def test_a_killed_run_leaves_a_whole_checkpoint(self, broken):
    _, said = broken
    assert said['kill'][0] == -signal.SIGKILL and said['kill'][2] == 3
    assert said['kill in save'][0] == -signal.SIGKILL and said['kill in save'][2] in (3, 6)

  @pytest.mark.parametrize('name', ['SIGTERM', 'SIGINT'])
  def test_an_interrupt_saves_the_step_and_leaves_cleanly(self, broken, name):
    code, error, saved, asked, logged = broken[1][name]
    assert code == 0, error
    assert 'Traceback' not in error
    assert asked <= saved == logged <= asked + 2

  def test_metrics_are_equal_but_for_wall_times(self, broken, unbroken):
    folder, said = broken
    assert said['end'][0] == 0, said['end'][1]
    assert _lines(folder) == _lines(unbroken)
    steps = [row['step'] for row in _lines(unbroken)]
    assert steps == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 10]  # evaluations have their own

  def test_every_sampled_text_is_equal(self, broken, unbroken):
    assert run_dir.rollout_steps(unbroken) == list(range(1, NUM_STEPS + 1))
    assert run_dir.rollout_steps(broken[0]) == run_dir.rollout_steps(unbroken)
    for step in run_dir.rollout_steps(unbroken):
      one, other = (run_dir.rollout_file(f, step).read_bytes() for f in (broken[0], unbroken))
      assert one == other, step

  def test_the_last_state_is_equal_bit_for_bit(self, broken, unbroken):
    (state, cursor), (expected, wanted) = (_state(f) for f in (broken[0], unbroken))
    assert cursor == wanted
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
      assert np.asarray(x).tobytes() == np.asarray(y).tobytes()

  def test_the_cursor_counts_prompts_not_updates(self, unbroken):
    """Four optimiser steps a batch, several batches a step: fault 44."""
    drawn = sum(row.get('groups_drawn', 0) for row in _lines(unbroken))
    assert _state(unbroken)[1]['num_taken'] == drawn > 4 * NUM_STEPS

  def test_something_was_learned_in_every_step(self, unbroken):
    """Else equality would say little."""
    rows = [row for row in _lines(unbroken) if 'skipped' in row]
    assert all(row['grad_norm'] > 0 for row in rows)
    assert len({row['column/third'] for row in rows}) > 2

  def test_nothing_is_compiled_after_the_first_step(self, unbroken):
    """Fault 53: sampler, prepare and update, once each for the one bucket met."""
    assert {row['compiles'] for row in _lines(unbroken) if 'compiles' in row} == {3.0}


def _plain_run(folder, *, verifier=paying_verifiers.by_hash, **changes):
  c = small_run.config(folder)
  c.batch.epochs = c.batch.minibatches = c.rollout.max_rounds = 1
  c.num_steps, c.eval.every = 2, 0
  for path, value in changes.items():
    c.update_from_flattened_dict({path.replace('__', '.'): value})
  return small_run.make(c, verifier)


class TestLearningRateZero:

  def test_five_steps_change_no_weight_and_no_mismatch(self, tmp_path):
    run = _plain_run(tmp_path / 'run', num_steps=5, optimizer__learning_rate=0.0)
    state, folder = small_run.train(run)
    for x, y in zip(jax.tree.leaves(state.params), jax.tree.leaves(run.init().params),
                    strict=True):
      assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    rows = [row for row in metrics_lib.read(folder) if 'skipped' in row]
    assert [row['skipped'] for row in rows] == [0.0] * 5  # the steps were taken
    assert max(row['mismatch_kl'] for row in rows) <= 1e-10
    assert all(row['grad_norm'] > 0 for row in rows)


class TestVerifiersThatFail:
  """The run goes on, and the log says what happened (faults 39, 40 and 41)."""

  @pytest.mark.slow
  def test_hanging_raising_and_exiting_ones(self, tmp_path):
    run = _plain_run(tmp_path / 'run', verifier=paying_verifiers.unruly,
                     verify__deadline_seconds=.5, eval__prompts=0)
    state, folder = small_run.train(run)
    assert int(state.step) == 2
    rows = metrics_lib.read(folder)
    share = lambda name: np.mean([row[f'status/{name}'] for row in rows])
    texts = [row for step in (1, 2) for row in run_dir.read_rollouts(folder, step)]
    for status in ('timeout', 'grader_error', 'crashed', 'ok'):
      count = sum(row['status'] == status for row in texts)
      assert count and share(status) == count / len(texts), status
    assert share('grader_error') == np.mean([row['ungraded'] for row in rows])
    for row in texts:
      if row['status'] == 'grader_error':
        assert row['advantage'] == 0

  def test_groups_without_a_signal_skip_the_update_and_keep_the_clock(self, tmp_path):
    """Dynamic sampling that finds no group: DAPO's k = 0."""
    run = _plain_run(tmp_path / 'run', verifier=paying_verifiers.nothing, rollout__max_rounds=2)
    state, folder = small_run.train(run)
    assert int(state.step) == 2
    for x, y in zip(jax.tree.leaves(state.params), jax.tree.leaves(run.init().params),
                    strict=True):
      np.testing.assert_array_equal(x, y)
    rows = [row for row in metrics_lib.read(folder) if 'skipped' in row]
    assert [(r['skipped'], r['rounds'], r['groups_kept'], r['groups_drawn']) for r in rows] == [
        (1, 2, 0, 8)] * 2
    assert all(np.isfinite(list(row.values())).all() for row in rows)
    assert run_dir.read_rollouts(folder, 1) == []


class TestInterrupt:

  def test_before_the_first_step_nothing_is_waited_for(self, tmp_path, monkeypatch):
    run = _plain_run(tmp_path / 'run', eval__prompts=0)
    enter = interrupt.Interrupt.__enter__

    def at_once(stop):
      enter(stop)
      os.kill(os.getpid(), signal.SIGTERM)
      return stop

    with monkeypatch.context() as patched:
      patched.setattr(interrupt.Interrupt, '__enter__', at_once)
      state, folder = small_run.train(run)
    assert int(state.step) == 0 and not (folder / run_dir.CHECKPOINTS).exists()
    state, _ = small_run.train(run)  # the same command continues
    assert int(state.step) == 2


_DEVICES = textwrap.dedent('''
    import sys
    import small_run
    from rlvr.host import metrics

    for kind, fsdp, steps in (('pmap', 1, (2,)), ('mesh', 2, (1, 2))):
      c = small_run.config(f'{sys.argv[1]}/{kind}')
      c.batch.epochs = c.batch.minibatches = 1
      c.parallel.kind, c.parallel.fsdp, c.eval.prompts = kind, fsdp, 0
      for c.num_steps in steps:
        state, folder = small_run.train(small_run.make(c))
        assert int(state.step) == c.num_steps
      rows = [row for row in metrics.read(folder) if 'skipped' in row]
      print(kind, [row['skipped'] for row in rows], {row['compiles'] for row in rows})
''')


class TestDevices:

  @pytest.mark.slow
  def test_two_devices_run_continue_and_compile_once(self, tmp_path):
    environment = os.environ | {
        'PYTHONPATH': f'{ROOT}{os.pathsep}{HELPERS}',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=2'}
    done = subprocess.run([sys.executable, '-c', _DEVICES, str(tmp_path)], env=environment,
                          capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        'pmap [0.0, 0.0] {3.0}', 'mesh [0.0, 0.0] {3.0}']
