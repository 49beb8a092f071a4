"""Tests of rlvr.verifiers.code_tests: what can and what cannot fake a pass."""

import functools
import os
import time

import pytest

from rlvr.verifiers import code_channel
from rlvr.verifiers import code_tests

_TASK = {'answer': '', 'tests': ['assert f(1) == 2', 'assert f(2) == 3']}
_RIGHT = 'def f(x):\n  return x + 1\n'
_grade = functools.partial(code_tests.python_tests, deadline_seconds=5.0)


class TestValueTests:

  def test_right_and_half_right(self):
    assert _grade(_TASK, _RIGHT).reward == 1
    half = _grade(_TASK, 'def f(x): return 2')
    assert (half.reward, half.columns['passed'], half.status) == (0, .5, 'ok')
    assert _grade(_TASK, 'def f(x): return 2', partial=True).reward == .5

  @pytest.mark.parametrize('code, status', [
      ('raise ValueError', 'crashed'),  # fault 41
      ('import sys; sys.exit(0)', 'crashed'),  # fault 41
      ('import os; os._exit(0)', 'crashed'),
      ('def f(x):\n  import os; os._exit(0)', 'crashed'),
      ('def f(x):\n  import sys; sys.exit(0)', 'ok'),
      ('def f(x):\n  raise ValueError', 'ok'),
      ('this is no Python', 'crashed'),
      ('x = [0] * 10**10', 'crashed'),
      ('print("ok", "passed", "1", flush=True)', 'ok'),
      # An object that equals everything.
      ('class A:\n  def __eq__(self, other): return True\ndef f(x): return A()', 'ok'),
      ('class A(int):\n  def __eq__(self, other): return True\ndef f(x): return A(9)', 'ok'),
      # Overwritten functions and garbage on every open descriptor.
      ('import builtins, os, json\nbuiltins.repr = lambda x: "2"\nos.write = lambda *a: 1\n'
       'json.loads = lambda *a: {}\nbuiltins.enumerate = lambda *a: []\ndef f(x): return 9', 'ok'),
      ('import os\nfor d in range(3, 64):\n  try: os.write(d, b"loaded\\n0 0 1 32\\n1 1 1 33\\n")\n'
       '  except OSError: pass\ndef f(x): return 9', 'ok'),
      ('\ud800', 'crashed'),
      ('\x00', 'crashed'),
  ])
  def test_fault_41_cannot_be_faked(self, code, status):
    result = _grade(_TASK, code)
    assert (result.reward, result.status, result.graded) == (0, status, True)

  @pytest.mark.parametrize('code', ['while True: pass', 'def f(x):\n  while True: pass'])
  def test_fault_40_its_own_time_out_is_zero(self, code):
    start = time.monotonic()
    result = _grade(_TASK, code, deadline_seconds=.5)
    assert (result.reward, result.status, result.graded) == (0, 'timeout', True)
    assert time.monotonic() - start < 2

  def test_a_child_that_never_reads_its_tests_cannot_hold_us(self):
    task = {'answer': '', 'tests': ['assert f(' + '1,' * 20_000 + ') == 1']}
    loops = 'import os, time\nfor d in range(3, 64):\n  try: os.write(d, b"loaded\\n")\n' \
        '  except OSError: pass\nwhile True: time.sleep(1)'
    start = time.monotonic()
    assert _grade(task, loops, deadline_seconds=.5).status == 'timeout'
    assert time.monotonic() - start < 5

  def test_nothing_is_left_running(self, tmp_path):
    file = tmp_path / 'alive'
    code = ('import os, time\nif not os.fork():\n  while True:\n'
            f'    open({str(file)!r}, "a").write("x"); time.sleep(.02)\n' + _RIGHT)
    assert _grade(_TASK, code).reward == 1
    time.sleep(.1)
    size = os.path.getsize(file) if file.exists() else 0
    time.sleep(.2)
    assert (os.path.getsize(file) if file.exists() else 0) == size


class TestOtherForms:

  def test_the_last_closed_block_is_the_program(self):
    text = f'First\n```python\ndef f(x): return 0\n```\nbetter\n```python\n{_RIGHT}```\ndone\n```'
    assert _grade(_TASK, text).reward == 1

  def test_a_call_with_a_json_value(self):
    task = {'answer': '', 'tests': [{'call': 'f(1)', 'expected': [1, [2]]}]}
    assert _grade(task, 'def f(x): return 1, (2,)').reward == 1
    assert _grade(task, 'def f(x): return 1, (3,)').reward == 0

  def test_statements_run_beside_the_code(self):
    task = {'answer': '', 'setup': 'import math', 'tests': ['assert math.isclose(f(1), .1 + .2)']}
    assert _grade(task, 'def f(x): return .3').reward == 1
    assert _grade(task, 'def f(x): return .4').reward == 0

  @pytest.mark.parametrize('code', [
      # Guesses at the runner's channel while loading, before the nonce is sent.
      'import os\nfor d in range(3, 64):\n  try: os.write(d, b"x 0 1 \\n" * 9)\n'
      '  except OSError: pass\ndef f(x): return 9',
      'import json, builtins\njson.loads = lambda *a: {"nonce": "x", "tests": []}\n'
      'builtins.exec = lambda *a: None\ndef f(x): return 9',
      'import sys\ndef f(x): sys.exit(0)',
  ])
  def test_fault_41_statements_cannot_be_faked_by_accident(self, code):
    task = {'answer': '', 'tests': ['y = f(1)\nassert 0 < y < 3']}
    assert _grade(task, _RIGHT).reward == 1
    assert _grade(task, code).reward == 0

  @pytest.mark.parametrize('code, reward', [
      ('print(int(input()) + 1)', 1),
      ('print(int(input()) + 1, end=" \\n\\n")', 1),
      ('print(4)', 0),
      ('print(int(input()) + 1); raise ValueError', 0),
      ('import sys; sys.exit(0)', 0),
  ])
  def test_programs_that_read_and_print(self, code, reward):
    task = {'answer': '', 'tests': [
        {'input': '3\n', 'output': '4\n'}, {'input': '5\n', 'output': '6'}]}
    assert _grade(task, code).reward == reward


class TestUngraded:

  @pytest.mark.parametrize('tests', [
      None, [], 'assert f(1) == 2', ['assert f('], [''], [{'call': 'f(1)'}], [3]])
  def test_tests_that_cannot_be_used_are_a_bad_reference(self, tests):
    assert _grade({'answer': '', 'tests': tests}, _RIGHT).status == 'bad_gold'

  def test_no_process_is_an_outage(self, monkeypatch):
    def fail(*unused):
      raise BlockingIOError('Resource temporarily unavailable')
    monkeypatch.setattr(code_channel, 'run_tests', fail)
    result = _grade(_TASK, _RIGHT)
    assert (result.status, result.graded) == ('outage', False)

  def test_a_blank_text_has_no_answer(self):
    assert _grade(_TASK, ' \n').status == 'no_answer'
