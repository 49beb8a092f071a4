"""Grades a batch in processes that can be killed, each item under a deadline.

A worker that hangs, even inside C code, is killed with SIGKILL at the item's
deadline and replaced at once, so that no answer can hold a batch or use up the
pool. Workers are plain Python processes that import no jax and not the main
program: they start in about 0.1 s plus what the verifier imports, which is
warmed up before the first item and never charged to one.
"""

import collections
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from multiprocessing import connection
from typing import Any

from absl import logging

from rlvr.verifiers import verdict
from rlvr.verifiers import worker
from rlvr.verifiers import worker_process

_MAX_BOOT_FAILURES = 3  # in a row; then the batch's rest is an outage
_MAX_CRASHES = 2  # of one item; the first may be anybody's fault, so it is tried again
_POLL_SECONDS = 0.2  # how soon a worker that died with its pipe still open is noticed


class VerifyPool:
  """Grades texts in order; a context manager.

  Whatever the verifier does, every item gets a verdict: one that outlasts the
  deadline is 'timeout' (reward 0, graded: the policy wrote it), one that ends
  its worker twice is 'crashed' (graded), an exception is 'grader_error'
  (ungraded, logged once; see `worker.judge` for the exceptions that count as
  the text's doing), and items for which no worker can be started are 'outage'
  (ungraded). A batch of n items ends within about
  ceil(n / num_workers) * (deadline_seconds + one worker's start) where every
  item hangs, and twice that where every item kills its worker.
  """

  def __init__(
      self,
      verifier: Callable[..., verdict.Verdict],
      *,
      num_workers: int = 4,
      deadline_seconds: float = 10.0,
      memory_bytes: int | None = 8 << 30,
      warm_task: Mapping[str, Any] | None = None,
      boot_seconds: float = 120.0,
  ):
    """Starts the workers and waits for the first.

    Args:
      verifier: (task, text) -> Verdict; a module-level function, or a
        functools.partial of one.
      num_workers: processes; about the number of idle cores.
      deadline_seconds: wall time for one item, from when a worker takes it.
      memory_bytes: address space of a worker, or None for no limit.
      warm_task: graded against its own answer and a wrong one while a worker
        starts, so that what the verifier imports and caches is there; give a
        real task where the verifier needs more than 'answer'.
      boot_seconds: how long a worker may take to start.

    Raises:
      ValueError: an option out of range, a verifier that cannot be sent to
        another process, or one that cannot be loaded there.
    """
    if num_workers < 1:
      raise ValueError(f'num_workers is {num_workers}; it must be at least 1.')
    if deadline_seconds <= 0:
      raise ValueError(f'deadline_seconds is {deadline_seconds}; it must be above 0.')
    part = worker_process.pickled((verifier, dict(warm_task or {'answer': '1'})))
    self._hello = pickle.dumps((list(sys.path), memory_bytes, deadline_seconds, part))
    self._deadline_seconds = deadline_seconds
    self._boot_seconds = boot_seconds
    self._num_workers = num_workers
    self._lock = threading.RLock()
    self._boot_failures = 0
    self._boot_error = ''
    self._logged: set[str] = set()
    self.num_replaced = 0  # workers killed or lost since the start, for the log
    self._workers: list[worker_process.WorkerProcess] = []
    self._close = weakref.finalize(self, _kill_all, self._workers)
    try:
      self._fill()
      while not any(w.ready for w in self._workers) and not self._boot_failures:
        self._listen(collections.deque(), {})
    except BaseException:
      self.close()
      raise
    if self._boot_failures:
      self.close()
      raise ValueError(f'No worker could load the verifier {verifier!r}: {self._boot_error}.')

  def __enter__(self) -> 'VerifyPool':
    return self

  def __exit__(self, *unused) -> None:
    self.close()

  def close(self) -> None:
    """Kills the workers and waits for their ends. A second call does nothing."""
    with self._lock:
      self._close()

  def grade(
      self, tasks: Sequence[Mapping[str, Any]], texts: Sequence[str],
  ) -> list[verdict.Verdict]:
    """Grades texts[i] as an answer to tasks[i].

    Args:
      tasks: what the verifier needs, picklable; one a text.
      texts: what the policy wrote.

    Returns:
      One verdict a text, in order.

    Raises:
      ValueError: lengths that differ, a task that cannot be pickled, or a
        closed pool.
    """
    if len(tasks) != len(texts):
      raise ValueError(f'{len(tasks)} tasks and {len(texts)} texts; each text needs its task.')
    messages = [worker_process.pickled(pair) for pair in zip(tasks, texts, strict=True)]
    with self._lock:
      if not self._close.alive:
        raise ValueError('The pool is closed; grade inside its with block.')
      self._boot_failures = 0
      waiting = collections.deque(range(len(messages)))
      crashes: collections.Counter[int] = collections.Counter()
      results: dict[int, verdict.Verdict] = {}
      try:
        while len(results) < len(messages):
          self._fill()
          if not self._workers:
            logging.error('No verifier worker can be started: %s', self._boot_error)
            for item in waiting:
              results[item] = verdict.failed(verdict.OUTAGE)
            waiting.clear()
          self._hand_out(waiting, messages)
          if len(results) < len(messages):
            self._listen(waiting, results, crashes)
      finally:
        # Only after an interruption is anyone still busy: what it says next is stale.
        for busy in [w for w in self._workers if w.item is not None]:
          self._drop(busy)
      return [results[i] for i in range(len(messages))]

  def _fill(self):
    while len(self._workers) < self._num_workers and self._boot_failures < _MAX_BOOT_FAILURES:
      try:
        self._workers.append(worker_process.WorkerProcess(self._hello, self._boot_seconds))
      except OSError as error:
        self._fail_boot(str(error))

  def _hand_out(self, waiting, messages):
    for idle in [w for w in self._workers if w.ready and w.item is None]:
      if not waiting:
        return
      idle.item = waiting.popleft()
      idle.until = time.monotonic() + self._deadline_seconds
      idle.send(messages[idle.item])

  def _listen(self, waiting, results, crashes=None):
    """Waits for one event at least, then hears every worker that has something to say."""
    active = [w for w in self._workers if w.item is not None or not w.ready]
    if not active:
      return
    pause = min(_POLL_SECONDS, max(0.0, min(w.until for w in active) - time.monotonic()))
    speaking = set(connection.wait([w.pipe for w in active], pause))
    now = time.monotonic()
    for each in active:
      if each.pipe in speaking:
        self._hear(each, waiting, results, crashes)
      elif each.process.poll() is not None:
        self._lost(each, waiting, results, crashes)
      elif now >= each.until:
        self._drop(each)
        if each.ready:
          results[each.item] = verdict.failed(verdict.TIMEOUT)
        else:
          self._fail_boot(f'it did not start within {self._boot_seconds} s')

  def _hear(self, speaker, waiting, results, crashes):
    try:
      message = speaker.pipe.recv_bytes()
    except (EOFError, OSError):
      self._lost(speaker, waiting, results, crashes)
      return
    if speaker.ready:
      results[speaker.item], error = worker.unpack(message)
      speaker.item = None
      self._log_once(error)
    elif message == worker.READY:
      speaker.ready, self._boot_failures = True, 0
    else:
      self._drop(speaker)
      self._fail_boot(message.decode())

  def _lost(self, dead, waiting, results, crashes):
    self._drop(dead)
    if not dead.ready:
      self._fail_boot('its process ended while it started')
      return
    crashes[dead.item] += 1
    if crashes[dead.item] >= _MAX_CRASHES:
      results[dead.item] = verdict.failed(verdict.CRASHED)
    else:
      waiting.appendleft(dead.item)

  def _drop(self, dead):
    self._workers.remove(dead)
    dead.kill()
    self.num_replaced += 1

  def _fail_boot(self, why):
    self._boot_failures += 1
    self._boot_error = why

  def _log_once(self, error):
    if error and error.splitlines()[-1] not in self._logged:
      self._logged.add(error.splitlines()[-1])
      logging.warning('The verifier raised; such rows are left out of training.\n%s', error)


def grade_here(
    verifier: Callable[..., verdict.Verdict],
    tasks: Sequence[Mapping[str, Any]],
    texts: Sequence[str],
) -> list[verdict.Verdict]:
  """Grades in this process, without a deadline: for a verifier written in a notebook cell."""
  return [worker.judge(verifier, task, text)[0] for task, text in zip(tasks, texts, strict=True)]


def _kill_all(workers):
  while workers:
    workers.pop().kill()
