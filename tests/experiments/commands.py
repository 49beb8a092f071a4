"""Runs command lines of experiments.run, each in a fork of one process that has its imports.

A process of its own for each would spend seconds on importing jax alone. The
server forks before any device is touched, so each command starts its own backend.
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]


class Done(NamedTuple):
  """What a command left: exit code, and its two streams."""

  code: int
  out: str
  error: str


class Commands:
  """Context manager: `run(*args)` is `python -m experiments.run *args`."""

  def __enter__(self):
    # stderr is the server's own: a fork writes into files.
    self._server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=ROOT, env=os.environ | {'PYTHONPATH': str(ROOT)})
    return self

  def __exit__(self, *unused):
    self._server.kill()
    self._server.wait()

  def start(self, folder, *args, file_bytes=0):
    """Starts a command whose streams go into `folder`; returns its process id."""
    request = {'args': [str(a) for a in args], 'folder': str(folder), 'file_bytes': file_bytes}
    self._server.stdin.write(json.dumps(request) + '\n')
    self._server.stdin.flush()
    return json.loads(self._server.stdout.readline())

  def wait(self, folder, seconds=180):
    """What the command left."""
    done, end = folder / 'code', time.monotonic() + seconds
    while not done.exists():
      assert time.monotonic() < end, 'the command did not end'
      time.sleep(.01)
    return Done(int(done.read_text()), (folder / 'out').read_text(), (folder / 'error').read_text())

  def run(self, folder, *args, **options):
    """Starts a command and waits for it."""
    self.start(folder, *args, **options)
    return self.wait(folder)


def _child(request):
  for number, name in ((1, 'out'), (2, 'error')):
    os.dup2(os.open(f'{request["folder"]}/{name}', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
  if request['file_bytes']:
    import resource

    import jax
    # jax would keep a program that was cut short, and compile it anew in every test after this.
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 1e9)
    resource.setrlimit(resource.RLIMIT_FSIZE, (request['file_bytes'],) * 2)
  from experiments import run
  sys.argv = ['run.py', *request['args']]
  run.run(sys.argv)


def _serve():
  for name in ('experiments.build', 'experiments.dry_run', 'experiments.run', 'rlvr.host.export',
               'rlvr.host.plot'):
    importlib.import_module(name)
  for line in sys.stdin:
    request = json.loads(line)
    watcher = os.fork()
    if watcher:
      continue
    # The watcher says who the command is, waits for it, and writes down its end.
    command = os.fork()
    if not command:
      return request
    print(command, flush=True)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    temporary = f'{request["folder"]}/code.part'
    with open(temporary, 'w') as file:
      file.write(str(code))
    os.rename(temporary, f'{request["folder"]}/code')
    os._exit(0)
  os._exit(0)


if __name__ == '__main__':
  _child(_serve())
