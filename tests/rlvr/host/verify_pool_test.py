"""Tests of rlvr.host.verify_pool: every way in which a verifier can go wrong."""

import functools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'verifiers'))

import bad_verifiers  # noqa: E402 - found through the line above, in the workers too

from rlvr import verifiers  # noqa: E402
from rlvr.host import verify_pool  # noqa: E402
from rlvr.verifiers import verdict  # noqa: E402

_TASK = {'answer': '72'}


def _grade(pool, *texts):
  return pool.grade([_TASK] * len(texts), texts)


def _statuses(pool, *texts):
  return [result.status for result in _grade(pool, *texts)]


def _alive(pid):
  try:
    with open(f'/proc/{pid}/stat') as stat:
      return stat.read().rsplit(')', 1)[1].split()[0] != 'Z'
  except FileNotFoundError:
    return False


def _ends(pid, seconds=5):
  """Whether a process ends within a few seconds; a kill takes a moment to arrive."""
  end = time.monotonic() + seconds
  while _alive(pid) and time.monotonic() < end:
    time.sleep(.02)
  return not _alive(pid)


@pytest.fixture(name='pool', scope='module')
def _pool():
  with verify_pool.VerifyPool(
      bad_verifiers.obedient, num_workers=2, deadline_seconds=.5, memory_bytes=4 << 30) as pool:
    yield pool


class TestGrade:

  def test_verdicts_come_in_order(self, pool):
    results = _grade(pool, *[str(i) for i in range(60, 80)])
    assert [r.answer for r in results] == [str(i) for i in range(60, 80)]
    assert [r.reward for r in results] == [float(i == 72) for i in range(60, 80)]

  def test_an_empty_batch(self, pool):
    assert pool.grade([], []) == []

  @pytest.mark.parametrize('text, status', [
      ('hang', 'timeout'),
      ('hang in C', 'timeout'),
      ('raise', 'grader_error'),
      ('unpicklable', 'grader_error'),
      ('not a verdict', 'grader_error'),
      ('bad column', 'grader_error'),
      ('sys.exit', 'crashed'),
      ('os._exit', 'crashed'),
      ('segfault', 'crashed'),
      ('memory', 'memory'),
      ('recurse', 'bad_text'),
      ('print', 'ok'),
  ])
  def test_each_way_to_fail_has_its_status_and_hurts_nobody_else(self, pool, text, status):
    results = _grade(pool, '72', text, '72', '72')
    assert [r.status for r in results] == ['ok', status, 'ok', 'ok']
    assert [r.reward for r in results] == [1, 0, 1, 1]
    assert results[1].graded == (status != 'grader_error')

  def test_hostile_text_travels(self, pool):
    for text in ('\x00', '\ud800', 'x' * 10**6, '[]"\n'):
      result = pool.grade([{'answer': text}], [text])[0]
      assert (result.reward, result.answer) == (1, text[:verdict.MAX_SHOWN])

  def test_a_text_may_speak_of_the_main_program(self, pool):
    assert _statuses(pool, 'if __name__ == "__main__":\nc__main__\nmain()') == ['ok']

  def test_a_worker_that_dies_once_costs_the_item_nothing(self, pool, tmp_path):
    text = f'die once {tmp_path / "dead"}'
    assert pool.grade([{'answer': text}], [text])[0].reward == 1

  def test_a_killed_workers_children_die_too(self, pool, tmp_path):
    assert _statuses(pool, f'child {tmp_path / "pid"}') == ['timeout']
    assert _ends(int((tmp_path / 'pid').read_text()))

  def test_a_worker_killed_while_idle_is_replaced(self, pool):
    pids = {r.answer for r in _grade(pool, *['pid'] * 8)}
    for pid in pids:
      os.kill(int(pid), signal.SIGKILL)
    time.sleep(.05)
    assert _statuses(pool, '72', '72', '72') == ['ok'] * 3

  def test_fault_40_a_sandbox_that_raises_excludes_its_rows(self, pool):
    results = _grade(pool, '72', 'raise', '7', 'raise', '72', '72', 'raise', '7')
    assert [r.graded for r in results] == [True, False, True, False, True, True, False, True]
    assert verdict.shares(results)['ungraded'] == .375

  def test_fault_40_the_policys_own_time_out_is_zero(self, pool):
    result = _grade(pool, 'hang')[0]
    assert (result.reward, result.status, result.graded) == (0, 'timeout', True)

  def test_lengths_must_agree(self, pool):
    with pytest.raises(ValueError, match='1 tasks and 2 texts'):
      pool.grade([_TASK], ['1', '2'])

  def test_threads_take_turns(self, pool):
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: _grade(pool, *[str(n)] * 5)}))
        for n in (71, 72, 73)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    assert {n: {r.answer for r in found[n]} for n in found} == {n: {str(n)} for n in (71, 72, 73)}


class TestDeadline:

  @pytest.mark.parametrize('bomb', ['hang', 'hang in C'])
  def test_fault_39_five_bombs_on_a_pool_of_four(self, bomb):
    with verify_pool.VerifyPool(
        bad_verifiers.obedient, num_workers=4, deadline_seconds=.5) as pool:
      start = time.monotonic()
      results = _grade(pool, *[bomb] * 5, '72')
      took = time.monotonic() - start
      assert [r.status for r in results] == ['timeout'] * 5 + ['ok']
      assert results[-1].reward == 1
      # Two rounds of the deadline, and the start of workers on a busy machine.
      assert 1.0 <= took < 5
      assert pool.num_replaced == 5

  def test_fault_39_power_towers_for_the_math_verifier(self):
    tower, hidden = r'\boxed{5^(5^(5^(5^5)))}', r'\boxed{\exp(5^{5^{3}}!)^{99999}}'
    with verify_pool.VerifyPool(verifiers.math, num_workers=4, deadline_seconds=1.0) as pool:
      start = time.monotonic()
      results = _grade(pool, *[tower] * 5, hidden, r'\boxed{72}')
      assert time.monotonic() - start < 8
    assert [r.reward for r in results] == [0] * 6 + [1]
    assert all(r.graded for r in results)

  def test_a_workers_first_import_is_not_charged(self):
    with verify_pool.VerifyPool(
        bad_verifiers.slow_first, num_workers=1, deadline_seconds=.4) as pool:
      assert _statuses(pool, '1', '2') == ['ok', 'ok']


class TestLife:

  def test_no_process_and_no_zombie_is_left(self):
    with verify_pool.VerifyPool(
        bad_verifiers.obedient, num_workers=2, deadline_seconds=.3) as pool:
      pids = {int(r.answer) for r in _grade(pool, *['pid'] * 4)}
      _grade(pool, 'hang')
    assert pids
    # Not even an entry: a zombie still has one.
    assert not any(os.path.exists(f'/proc/{pid}') for pid in pids)

  def test_close_twice_and_grade_after(self):
    pool = verify_pool.VerifyPool(bad_verifiers.obedient, num_workers=1)
    pool.close()
    pool.close()
    with pytest.raises(ValueError, match='closed'):
      _grade(pool, '72')

  def test_workers_load_no_jax(self):
    with verify_pool.VerifyPool(bad_verifiers.jax_is_loaded, num_workers=1) as pool:
      assert _grade(pool, '72')[0].reward == 0

  def test_an_interrupted_batch_leaves_a_pool_that_works(self):
    with verify_pool.VerifyPool(
        bad_verifiers.obedient, num_workers=2, deadline_seconds=5.0) as pool:
      timer = threading.Timer(.3, signal.raise_signal, (signal.SIGINT,))
      timer.start()
      with pytest.raises(KeyboardInterrupt):
        _grade(pool, 'hang', 'hang', 'hang')
      assert [r.answer for r in _grade(pool, '71', '72')] == ['71', '72']

  @pytest.mark.parametrize('how', ['module', 'script', 'stdin'])
  def test_any_kind_of_main_program(self, how, tmp_path):
    (tmp_path / 'main_program.py').write_text(
        'from rlvr import verifiers\n'
        'from rlvr.host import verify_pool\n'
        'print("imported as", __name__)\n'  # without a guard: workers must not import it
        'with verify_pool.VerifyPool(verifiers.exact, num_workers=1) as pool:\n'
        '  print(pool.grade([{"answer": "a"}], ["a"])[0].reward)\n')
    root = pathlib.Path(verify_pool.__file__).parents[2]
    argv = {'module': ['-m', 'main_program'], 'script': ['main_program.py'], 'stdin': ['-']}[how]
    with open(tmp_path / 'main_program.py') as program:
      done = subprocess.run(
          [sys.executable, *argv], cwd=tmp_path, stdin=program, capture_output=True, text=True,
          timeout=60, env={**os.environ, 'PYTHONPATH': str(root)})
    assert done.stdout.split('\n')[:2] == ['imported as __main__', '1.0'], done.stderr

  @pytest.mark.parametrize('busy', [False, True])
  def test_workers_of_a_killed_parent_end(self, busy, tmp_path):
    root = pathlib.Path(verify_pool.__file__).parents[2]
    text = 'hang in C' if busy else '72'
    program = (
        'import os, sys, signal, threading\n'
        'sys.path.insert(0, sys.argv[1])\n'
        'import bad_verifiers\n'
        'from rlvr.host import verify_pool\n'
        'pool = verify_pool.VerifyPool(\n'
        '    bad_verifiers.obedient, num_workers=1, deadline_seconds=1.0)\n'
        'print(pool.grade([{"answer": ""}], ["pid"])[0].answer, flush=True)\n'
        'threading.Timer(.3, os.kill, (os.getpid(), signal.SIGKILL)).start()\n'
        f'pool.grade([{{"answer": ""}}], [{text!r}])\n'
        'threading.Event().wait()\n')
    done = subprocess.run(
        [sys.executable, '-c', program, str(pathlib.Path(bad_verifiers.__file__).parent)],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60,
        env={**os.environ, 'PYTHONPATH': str(root)})
    pid = int(done.stdout)
    assert _alive(pid) or not busy
    assert _ends(pid, seconds=15 if busy else 5)


class TestStart:

  def test_a_verifier_that_never_starts_is_one_sentence(self):
    with pytest.raises(ValueError, match='No worker could load'):
      verify_pool.VerifyPool(bad_verifiers.never_starts, num_workers=2)

  def test_a_lambda_is_one_sentence(self):
    with pytest.raises(ValueError, match='cannot be sent to another process'):
      verify_pool.VerifyPool(lambda task, text: None, num_workers=1)

  def test_a_verifier_of_the_main_program_is_one_sentence(self):
    function = type(bad_verifiers.obedient)(
        bad_verifiers.obedient.__code__, {}, 'main_only')
    function.__module__, function.__qualname__ = '__main__', 'main_only'
    sys.modules['__main__'].main_only = function
    try:
      with pytest.raises(ValueError, match='main program or a notebook'):
        verify_pool.VerifyPool(function, num_workers=1)
    finally:
      del sys.modules['__main__'].main_only

  @pytest.mark.parametrize('options', [{'num_workers': 0}, {'deadline_seconds': 0.0}])
  def test_options_out_of_range(self, options):
    with pytest.raises(ValueError, match=next(iter(options))):
      verify_pool.VerifyPool(bad_verifiers.obedient, **options)

  def test_a_pool_that_can_start_nobody_is_an_outage(self, tmp_path):
    verifier = functools.partial(bad_verifiers.starts_once, flag=str(tmp_path / 'down'))
    with verify_pool.VerifyPool(verifier, num_workers=1, deadline_seconds=5.0) as pool:
      results = _grade(pool, '1', 'break', '2')
      assert [r.status for r in results] == ['ok', 'outage', 'outage']
      assert not results[1].graded
      os.remove(tmp_path / 'down')
      assert _statuses(pool, '1') == ['ok']  # the next batch tries again


class TestGradeHere:

  def test_grades_without_a_process(self):
    assert [r.status for r in verify_pool.grade_here(
        lambda task, text: verifiers.exact(task, text), [_TASK] * 2, ['72', ''])] == [
            'ok', 'no_answer']
