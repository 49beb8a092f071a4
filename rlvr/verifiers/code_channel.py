"""Runs model-written code in a child process and hears what its tests returned."""

import contextlib
import json
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

_RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'code_runner.py')
_MAX_RESULT_BYTES = 1 << 22
_POLL_SECONDS = 0.05  # how soon a child that died with its pipe still open is noticed


class Limits(NamedTuple):
  """When to stop: `end` is a time.monotonic() moment, `seconds` bounds CPU time too."""

  end: float
  seconds: float
  memory_bytes: int

  def left(self) -> float:
    return max(0.0, self.end - time.monotonic())


class Outcome(NamedTuple):
  """What came back: `results[i]` is repr(value), '' for a statement, None for a failure."""

  results: list[str | None]
  ended: str  # 'done', 'crashed' or 'timeout'


def run_tests(code: str, tests: Sequence[tuple[str, str]], limits: Limits) -> Outcome:
  """Loads `code`, then evaluates each test beside it.

  Args:
    code: the answer, with any setup in front.
    tests: ('value', expression) or ('code', statements) each.
    limits: deadline and memory.

  Returns:
    One result a test. 'crashed' where the code failed to load or ended the
    process before the last test; 'timeout' where the deadline came first.

  Raises:
    OSError: no process or directory could be made; never the code's doing.
  """
  nonce = secrets.token_hex(16)
  questions = [nonce, *(f'{kind} {source.encode().hex()}' for kind, source in tests), '']
  results: list[str | None] = [None] * len(tests)
  job_read, job_write = os.pipe()
  result_read, result_write = os.pipe()
  with contextlib.ExitStack() as stack:
    stack.callback(os.close, result_read)
    job = stack.enter_context(os.fdopen(job_write, 'wb', buffering=0))
    with contextlib.ExitStack() as theirs:
      for descriptor in (job_read, result_write):
        theirs.callback(os.close, descriptor)
      child = stack.enter_context(_child(job_read, result_write))
    lines = _lines(child, result_read, limits)
    _send(job, _header(code, limits, program=False), limits)
    if next(lines, None) != 'loaded':
      return Outcome(results, 'timeout' if limits.left() <= 0 else 'crashed')
    _send(job, '\n'.join(questions), limits)
    job.close()  # the child reads to the end
    heard = 0
    for line in lines:
      fields = line.split(' ')
      if len(fields) == 4 and fields[:2] == [nonce, str(heard)]:
        results[heard] = _unpacked(fields[3]) if fields[2] == '1' else None
        heard += 1
      if heard == len(tests):
        return Outcome(results, 'done')
  return Outcome(results, 'timeout' if limits.left() <= 0 else 'crashed')


def run_program(code: str, given: str, limits: Limits) -> tuple[str | None, str]:
  """Runs `code` as a program with `given` on its standard input.

  Args:
    code: the answer.
    given: what it can read.
    limits: deadline and memory.

  Returns:
    What it printed, or None where it did not end by itself with status 0, and
    'done', 'crashed' or 'timeout'.

  Raises:
    OSError: no process or file could be made; never the code's doing.
  """
  job_read, job_write = os.pipe()
  with contextlib.ExitStack() as stack:
    job = stack.enter_context(os.fdopen(job_write, 'wb', buffering=0))
    stdin = stack.enter_context(tempfile.TemporaryFile())
    stdout = stack.enter_context(tempfile.TemporaryFile())
    stdin.write(given.encode('utf-8', 'replace'))
    stdin.seek(0)
    with contextlib.ExitStack() as theirs:
      theirs.callback(os.close, job_read)
      child = stack.enter_context(_child(job_read, 2, stdin, stdout))
    _send(job, _header(code, limits, program=True), limits)
    try:
      status = child.wait(limits.left())
    except subprocess.TimeoutExpired:
      return None, 'timeout'
    stdout.seek(0)
    printed = stdout.read(_MAX_RESULT_BYTES).decode('utf-8', 'replace')
  return (printed, 'done') if status == 0 else (None, 'crashed')


@contextlib.contextmanager
def _child(job_fd, result_fd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) -> Iterator:
  """The runner in an empty directory and a process group of its own, killed at the end."""
  with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
    child = subprocess.Popen(
        [sys.executable, '-I', _RUNNER, str(job_fd), str(result_fd)],
        stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, cwd=directory,
        env={'PATH': os.defpath, 'OPENBLAS_NUM_THREADS': '1'},
        pass_fds=(job_fd, result_fd), process_group=0)
    try:
      yield child
    finally:
      with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
      child.wait()


def _header(code, limits, *, program):
  return json.dumps({
      'code': code, 'program': program, 'bytes': limits.memory_bytes,
      'seconds': math.ceil(limits.seconds) + 1}) + '\n'


def _send(job, text, limits):
  """Writes until the deadline, so that a child that never reads cannot hold us."""
  data = text.encode()
  os.set_blocking(job.fileno(), False)
  # A child that died early closes the pipe; its end is noticed when it is read from.
  with contextlib.suppress(BrokenPipeError):
    while data and limits.left() > 0:
      if select.select([], [job], [], limits.left())[1]:
        data = data[job.write(data):]


def _unpacked(payload):
  try:
    return bytes.fromhex(payload).decode()
  except ValueError:
    return None  # not what the runner writes, so the code wrote it


def _lines(child, descriptor, limits):
  """Yields the child's lines until it ends, says too much, or the deadline comes."""
  buffered, total = b'', 0
  while total <= _MAX_RESULT_BYTES and limits.left() > 0:
    ended = child.poll() is not None
    ready = select.select([descriptor], [], [], 0 if ended else min(_POLL_SECONDS, limits.left()))
    if not ready[0]:
      if ended:
        return
      continue
    data = os.read(descriptor, 1 << 16)
    if not data:
      return
    total += len(data)
    *complete, buffered = (buffered + data).split(b'\n')
    for line in complete:
      yield line.decode('ascii', 'replace')
