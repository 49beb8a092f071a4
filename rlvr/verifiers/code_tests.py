"""Answers that are Python programs: paid by what their tests return, nothing else.

The exit code, printed text and the end of the process say nothing about a test.
For a test of the form `assert f(1) == 2`, `f(1)` is evaluated in the child and
its value compared here, so no code passes without producing the value. Any
other statement has to be run beside the answer's code; a nonce that arrives
after the code was loaded protects its result, which stops everything but a
program written against this very runner. Prefer value tests.

This bounds time, memory and file size; it is no security sandbox (files and the
network can be reached), so train on code inside a container.
"""

import ast
import time
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from rlvr.verifiers import code_channel
from rlvr.verifiers import verdict

MAX_CHARACTERS = 200_000


class _Test(NamedTuple):
  kind: str  # 'value', 'code' or 'program'
  source: str  # expression, statements or standard input
  expected: Any = None
  strict: bool = True  # False: a tuple equals the list of the same items


def python_tests(
    task: Mapping[str, Any],
    text: str,
    *,
    deadline_seconds: float = 6.0,
    memory_bytes: int = 1 << 30,
    partial: bool = False,
) -> verdict.Verdict:
  """1 where the program passes every test, else 0.

  The program is the last closed ``` block, or the whole text where there is none.

  Args:
    task: 'tests' is a sequence of statements ('assert f(1) == 2'), of
      {'call': 'f(1)', 'expected': 2}, or of {'input': ..., 'output': ...} for a
      program that reads and prints (compared line by line, closing blanks
      apart); 'setup' (optional) is code that runs in front.
    text: what the policy wrote.
    deadline_seconds: for all the tests of one answer together; keep the pool's
      deadline above it.
    memory_bytes: address space of the program.
    partial: pay the share of tests that pass instead of all or nothing.

  Returns:
    Column 'passed' is the share of tests that pass. Status 'ok', 'no_answer',
    'bad_text' (too long), 'timeout' or 'crashed' (reward 0 whatever passed
    before), 'bad_gold' (no usable tests) or 'outage' (no process can be made).
  """
  try:
    tests = [] if isinstance(task['tests'], str) else [_parsed(test) for test in task['tests']]
    setup = task.get('setup') or ''
    ast.parse(setup)
  except (KeyError, TypeError, ValueError, SyntaxError):
    tests = []
  if not tests:
    return verdict.failed(verdict.BAD_GOLD)
  code = program_in(text)
  if not code.strip():
    return verdict.failed(verdict.NO_ANSWER)
  if len(code) > MAX_CHARACTERS:
    return verdict.failed(verdict.BAD_TEXT, code)
  code = code.encode('utf-8', 'replace').decode()  # a lone surrogate cannot be sent
  limits = code_channel.Limits(time.monotonic() + deadline_seconds, deadline_seconds, memory_bytes)
  try:
    passed, ended = _passed(f'{setup}\n{code}' if setup else code, tests, limits)
  except OSError:
    return verdict.failed(verdict.OUTAGE, code)
  columns = {'passed': sum(passed) / len(tests)}
  if ended != 'done':
    return verdict.failed(
        verdict.TIMEOUT if ended == 'timeout' else verdict.CRASHED, code, columns)
  return verdict.Verdict(
      columns['passed'] if partial else float(all(passed)), columns, verdict.OK, code)


def program_in(text: str) -> str:
  """The last closed ``` block of a text, or the whole text."""
  block, last = None, None
  for line in text.split('\n'):
    if line.lstrip().startswith('```'):
      if block is None:
        block = []
      else:
        block, last = None, block
    elif block is not None:
      block.append(line)
  return text if last is None else '\n'.join(last)


def _parsed(test):
  if isinstance(test, Mapping):
    if 'output' in test:
      return _Test('program', str(test.get('input', '')), str(test['output']))
    ast.parse(test['call'], mode='eval')
    return _Test('value', test['call'], test['expected'], strict=False)
  body = ast.parse(test).body
  if not body:
    raise ValueError('an empty test passes everything')
  value = _value_test(body[0]) if len(body) == 1 else None
  return value or _Test('code', test)


def _value_test(statement):
  """`assert expression == literal`, either way round, as a value test."""
  if not isinstance(statement, ast.Assert) or not isinstance(statement.test, ast.Compare):
    return None
  compare = statement.test
  if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Eq):
    return None
  for expression, literal in (
      (compare.left, compare.comparators[0]), (compare.comparators[0], compare.left)):
    try:
      return _Test('value', ast.unparse(expression), ast.literal_eval(literal))
    except (ValueError, TypeError):
      continue  # not a literal; try the other side
  return None


def _passed(code, tests, limits):
  beside = [(i, test) for i, test in enumerate(tests) if test.kind != 'program']
  passed, ended = [False] * len(tests), 'done'
  if beside:
    outcome = code_channel.run_tests(
        code, [(test.kind, test.source) for _, test in beside], limits)
    ended = outcome.ended
    for (i, test), result in zip(beside, outcome.results, strict=True):
      passed[i] = result is not None and (test.kind == 'code' or _equal(test, result))
  for i, test in enumerate(tests):
    if test.kind == 'program' and ended != 'timeout':
      printed, how = code_channel.run_program(code, test.source, limits)
      passed[i] = printed is not None and _shown(printed) == _shown(test.expected)
      # A program that dies fails its own test only; running out of time ends them all.
      ended = how if how == 'timeout' else ended
  return passed, ended


def _equal(test, shown):
  try:
    value = ast.literal_eval(shown)
    if test.strict:
      return bool(value == test.expected)
    return bool(_as_lists(value) == _as_lists(test.expected))
  except (ValueError, SyntaxError, MemoryError, RecursionError):
    return False  # not a plain Python value, so not the expected one


def _as_lists(value):
  if isinstance(value, (list, tuple)):
    return [_as_lists(item) for item in value]
  if isinstance(value, dict):
    return {key: _as_lists(item) for key, item in value.items()}
  return value


def _shown(printed):
  return [line.rstrip() for line in printed.rstrip().split('\n')]
