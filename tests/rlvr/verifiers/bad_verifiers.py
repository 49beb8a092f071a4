"""Verifiers that misbehave when the text says so; importable by the pool's workers."""

import ctypes
import os
import subprocess
import sys
import time

from rlvr.verifiers import verdict


def obedient(task, text):
  """Does what the text says, else grades whether the text is the answer."""
  if text == 'hang':
    time.sleep(1000)
  elif text == 'hang in C':
    return 9**9**9  # holds the interpreter's lock
  elif text == 'raise':
    raise RuntimeError('sandbox unreachable')
  elif text == 'sys.exit':
    sys.exit(0)
  elif text == 'os._exit':
    os._exit(0)
  elif text == 'segfault':
    ctypes.string_at(0)
  elif text == 'memory':
    return bytearray(1 << 40)  # refused at once
  elif text == 'recurse':
    return obedient(task, text)
  elif text == 'unpicklable':
    return lambda: None
  elif text == 'not a verdict':
    return 1.0
  elif text == 'bad column':
    return verdict.Verdict(1.0, {'x': 'y'})
  elif text == 'print':
    print('x' * 10**6, flush=True)
  elif text == 'pid':
    return verdict.graded_as(True, str(os.getpid()))
  elif text.startswith('die once '):
    if not os.path.exists(text[9:]):
      open(text[9:], 'w').close()
      os._exit(1)
  elif text.startswith('child '):
    child = subprocess.Popen(['sleep', '1000'])
    with open(text[6:], 'w') as file:
      file.write(str(child.pid))
    time.sleep(1000)
  return verdict.graded_as(text == task['answer'], text)


def jax_is_loaded(task, text):
  """Whether this process has imported jax."""
  return verdict.graded_as('jax' in sys.modules, text)


def slow_first(task, text, *, loaded=[]):  # noqa: B006 - remembers across calls on purpose
  """Takes a second on its first call in a process, as a heavy import does."""
  if not loaded:
    time.sleep(1.0)
    loaded.append(1)
  return verdict.graded_as(True, text)


def never_starts(task, text):
  """Kills its process, in the warm-up already."""
  os._exit(1)


def starts_once(task, text, *, flag=''):
  """Starts while the file `flag` is missing; an item of 'break' makes and leaves it."""
  if os.path.exists(flag):
    os._exit(1)
  if text == 'break':
    open(flag, 'w').close()
    os._exit(1)
  return verdict.graded_as(True, text)
