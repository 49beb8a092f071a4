"""One grading process: what `rlvr.host.verify_pool` starts, and kills at a deadline.

It is started as a plain `python -c`, not by multiprocessing, so that the user's
main program (which imports jax) is not imported again in every worker. Messages
in are pickles from the parent; messages out are JSON, because the parent must
not unpickle what a process that reads hostile text has written.
"""

import json
import math
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from collections.abc import Mapping
from multiprocessing import connection
from typing import Any

from rlvr.verifiers import verdict

READY = b'ready'  # the first message; anything else says why there is no worker
_WARM_TEXT = r'\boxed{x + 1}'  # no number, so that `math` has to load its parser
_ORPHAN_GRACE_SECONDS = 5  # past the deadline, in case the parent is no longer there to kill us


def judge(
    verifier: Callable[..., Any], task: Mapping[str, Any], text: str,
) -> tuple[verdict.Verdict, str]:
  """Grades one text, whatever the verifier does short of ending the process.

  Args:
    verifier: (task, text) -> Verdict.
    task: what it needs.
    text: what the policy wrote.

  Returns:
    The verdict, and a traceback where the verifier is to blame. An exception is
    'grader_error' (ungraded), except those that a text can force on a sound
    verifier: MemoryError is 'memory', RecursionError 'bad_text', and an attempt
    to end the process (SystemExit, KeyboardInterrupt) 'crashed'.
  """
  try:
    result = verifier(task, text)
    if not isinstance(result, verdict.Verdict):
      raise TypeError(f'the verifier returned {type(result).__name__}, not a Verdict')
    _packed(result)
    return result, ''
  except MemoryError:
    return verdict.failed(verdict.MEMORY), ''
  except RecursionError:
    return verdict.failed(verdict.BAD_TEXT), ''
  except Exception:  # a verifier's own fault, of any kind, is the same outcome
    return verdict.failed(verdict.GRADER_ERROR), traceback.format_exc(limit=-5)
  except BaseException:
    return verdict.failed(verdict.CRASHED), ''


def unpack(message: bytes) -> tuple[verdict.Verdict, str]:
  """The verdict and traceback in a worker's message; anything else is the grader's error."""
  try:
    *fields, error = json.loads(message)
    return verdict.Verdict(*fields), error
  except (TypeError, ValueError, AttributeError):
    return verdict.failed(verdict.GRADER_ERROR), f'A worker sent {message[:100]!r}, not a verdict.'


def serve(descriptor: int) -> None:
  """Answers the parent until it hangs up.

  Args:
    descriptor: this process's end of the connection.
  """
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
  pipe = connection.Connection(descriptor)
  try:
    path, memory_bytes, deadline_seconds, part = pickle.loads(pipe.recv_bytes())
    sys.path[:] = path
    if memory_bytes is not None:
      resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    verifier, warm_task = pickle.loads(part)
    # Imports and caches are paid for here, outside every deadline.
    for text in (str(warm_task.get('answer')), _WARM_TEXT):
      judge(verifier, warm_task, text)
  except EOFError:
    return
  except Exception as error:  # whatever it is, the parent has to hear why there is no worker
    pipe.send_bytes(f'{type(error).__name__}: {error}'.encode('utf-8', 'replace'))
    return
  pipe.send_bytes(READY)
  while True:
    try:
      message = pipe.recv_bytes()
    except EOFError:
      return
    # The default action of SIGALRM kills even inside C code that holds the lock.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(math.ceil(deadline_seconds) + _ORPHAN_GRACE_SECONDS)
    result, error = judge(lambda m, _, v=verifier: v(*pickle.loads(m)), message, '')
    signal.alarm(0)
    pipe.send_bytes(_packed(result, error))


def _packed(result, error=''):
  columns = {str(name): float(value) for name, value in result.columns.items()}
  offsets = {str(name): int(offset) for name, offset in result.offsets.items()}
  return json.dumps([
      float(result.reward), columns, str(result.status), str(result.answer), offsets, error,
  ]).encode()
