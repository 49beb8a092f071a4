"""The pool's side of a worker: its process, its pipe, and what may be sent to it."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import connection
from typing import Any

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_START = (
    'import sys; sys.path.insert(0, sys.argv[1]); '
    'from rlvr.verifiers import worker; worker.serve(int(sys.argv[2]))')


class WorkerProcess:
  """A started worker.

  Attributes:
    pipe: the parent's end of the connection.
    process: the process, leader of a session of its own, so that Ctrl-C does not
      reach it and one kill ends what it started too.
    ready: whether it has said that it can take items.
    item: the index that it is grading, or None.
    until: the time.monotonic() moment at which it is killed, while it starts or
      grades.
  """

  def __init__(self, hello: bytes, boot_seconds: float):
    """Starts it. Raises: OSError where no process can be made."""
    self.pipe, theirs = connection.Pipe()
    self.ready = False
    self.item: int | None = None
    self.until = time.monotonic() + boot_seconds
    with theirs:
      self.process = subprocess.Popen(
          [sys.executable, '-c', _START, _ROOT, str(theirs.fileno())],
          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
          env={**os.environ, 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'},
          pass_fds=(theirs.fileno(),), start_new_session=True)
    self.send(hello)

  def send(self, message: bytes) -> None:
    """Sends a message; to a worker that has died it is lost, and its end is noticed later."""
    with contextlib.suppress(OSError):
      self.pipe.send_bytes(message)

  def kill(self) -> None:
    """Kills it and what it started, and waits, so that no zombie is left."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self.process.pid, signal.SIGKILL)
    self.process.wait()
    self.pipe.close()


def pickled(value: Any) -> bytes:
  """A pickle.

  Args:
    value: a tuple of what goes to a worker.

  Raises:
    ValueError: what cannot be pickled, or is defined in the main program or a
      notebook cell, which workers do not import.
  """
  try:
    data = pickle.dumps(value)
  except Exception as error:  # pickle raises what the object's own hooks raise
    raise ValueError(
        f'{value[0]!r} cannot be sent to another process ({error}); use a function at the top '
        f'level of a module, and plain data.') from error
  # Only where the name occurs at all (a text may hold it too): protocol 0 tells them apart.
  if b'__main__' in data and b'c__main__\n' in pickle.dumps(value, protocol=0):
    raise ValueError(
        f'{value[0]!r} is defined in the main program or a notebook, which workers do not import; '
        f'move it into a module, or use verify_pool.grade_here.')
  return data
