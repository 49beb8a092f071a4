"""Starts the same program as several processes of one machine.

    python -m launch.local --num_processes=2 --devices_per_process=1 -- \\
        python my_program.py

Each process finds where it stands in the environment:

    RLVR_COORDINATOR    host:port of process 0
    RLVR_NUM_PROCESSES  how many there are
    RLVR_PROCESS_ID     which one this is

and joins the others by `initialize_from_env()`, which must run before any other
use of jax (`experiments.run` uses the devices of one process and refuses more).
Output lines carry the process id. When one process fails the others are ended, and
its exit code is returned. `--dry_run` prints the command lines.
"""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import BinaryIO

from absl import app
from absl import flags

COORDINATOR = 'RLVR_COORDINATOR'
NUM_PROCESSES = 'RLVR_NUM_PROCESSES'
PROCESS_ID = 'RLVR_PROCESS_ID'

_NUM_PROCESSES = flags.DEFINE_integer('num_processes', 2, 'Processes to start.', 1)
_DEVICES = flags.DEFINE_integer('devices_per_process', 1, 'Devices each process sees.', 1)
_PLATFORM = flags.DEFINE_enum(
    'platform', 'cpu', ['cpu', 'cuda'],
    'cpu: simulated devices, gloo between processes; cuda: each process gets its own GPUs.')
_PORT = flags.DEFINE_integer('port', 0, 'Port of the coordinator; 0 takes a free one.', 0, 65535)
_GRACE = flags.DEFINE_float('grace_seconds', 10.0, 'From SIGTERM to SIGKILL.', 0)
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Print the command lines and start nothing.')


def initialize_from_env(environ: Mapping[str, str] | None = None) -> bool:
  """Joins the processes that a launcher started; call it before any other use of jax.

  Args:
    environ: os.environ by default.

  Returns:
    False where no launcher set the variables: then this is the only process.

  Raises:
    ValueError: some of the three variables are missing or malformed.
  """
  environ = os.environ if environ is None else environ
  given = {name: environ[name] for name in (COORDINATOR, NUM_PROCESSES, PROCESS_ID)
           if environ.get(name)}
  if not given:
    return False
  if len(given) < 3:
    missing = sorted({COORDINATOR, NUM_PROCESSES, PROCESS_ID} - given.keys())
    raise ValueError(f'{", ".join(given)} set, but not {", ".join(missing)}: set all or none.')
  try:
    num_processes, process_id = int(given[NUM_PROCESSES]), int(given[PROCESS_ID])
  except ValueError as error:
    raise ValueError(f'{NUM_PROCESSES} and {PROCESS_ID} must be integers, got {given}.') from error
  if not 0 <= process_id < num_processes:
    raise ValueError(f'{PROCESS_ID} must lie in [0, {num_processes}), got {process_id}.')

  import jax  # Here: the launcher itself must not start a backend.
  jax.distributed.initialize(
      coordinator_address=given[COORDINATOR], num_processes=num_processes, process_id=process_id)
  return True


def assignments(
    process_id: int, num_processes: int, port: int, *, devices_per_process: int, platform: str,
) -> dict[str, str]:
  """The environment variables of one process."""
  first = process_id * devices_per_process
  devices = {
      'cpu': {
          'JAX_PLATFORMS': 'cpu',
          'JAX_NUM_CPU_DEVICES': str(devices_per_process),
          'JAX_CPU_COLLECTIVES_IMPLEMENTATION': 'gloo',
      },
      'cuda': {
          'CUDA_VISIBLE_DEVICES': ','.join(
              str(first + index) for index in range(devices_per_process)),
      },
  }[platform]
  return {
      COORDINATOR: f'localhost:{port}',
      NUM_PROCESSES: str(num_processes),
      PROCESS_ID: str(process_id),
      'PYTHONUNBUFFERED': '1',  # Lines appear when they are written, not when a pipe is full.
      **devices,
  }


def command_lines(
    command: Sequence[str], num_processes: int, port: int, **options) -> list[list[str]]:
  """One argv a process: ['env', 'NAME=value', ..., *command], as a shell would run it."""
  return [
      ['env', *(f'{name}={value}' for name, value in
                assignments(process_id, num_processes, port, **options).items()), *command]
      for process_id in range(num_processes)]


def free_port() -> int:
  """A port of localhost that nobody listens on now."""
  with socket.socket() as listener:
    listener.bind(('localhost', 0))
    return listener.getsockname()[1]


def run(argvs: Sequence[Sequence[str]], *, grace_seconds: float = 10.0) -> int:
  """Starts the processes and waits for all of them.

  Args:
    argvs: one command line a process.
    grace_seconds: between SIGTERM and SIGKILL for those that must end.

  Returns:
    0, or the exit code of the first that failed (128 + n for signal n), after
    the others were ended. SIGINT and SIGTERM to the launcher are handed on and
    the processes may save; the code is then what they return.
  """
  processes: list[subprocess.Popen] = []
  readers: list[threading.Thread] = []
  lock = threading.Lock()

  def forward(number, frame):
    del frame
    _send(processes, number)

  old = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
  try:
    for process_id, argv in enumerate(argvs):
      # Its own session: a signal then reaches its children too, and Ctrl-C reaches it once.
      process = subprocess.Popen(
          argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
      processes.append(process)
      for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
        readers.append(threading.Thread(
            target=_copy, args=(source, target.buffer, process_id, lock), daemon=True))
        readers[-1].start()
    while True:
      codes = [process.poll() for process in processes]
      if any(codes):
        return _exit_code(_end_group_of_first_failed(processes, codes))
      if None not in codes:
        return 0
      time.sleep(0.05)
  finally:
    _end(processes, grace_seconds)
    for reader in readers:
      reader.join(timeout=5)
    for number, handler in old.items():
      signal.signal(number, handler)


def _copy(source: BinaryIO, target: BinaryIO, process_id: int, lock: threading.Lock) -> None:
  for line in source:
    with lock:
      target.write(b'[%d] ' % process_id + line + (b'' if line.endswith(b'\n') else b'\n'))
      target.flush()


def _send(processes, number):
  for process in processes:
    if process.poll() is None:
      os.killpg(process.pid, number)


def _end_group_of_first_failed(processes, codes):
  """The failed process is gone; its own children (a pool of graders) may not be."""
  index = next(index for index, code in enumerate(codes) if code)
  with contextlib.suppress(ProcessLookupError):
    os.killpg(processes[index].pid, signal.SIGKILL)
  return codes[index]


def _end(processes, grace_seconds):
  _send(processes, signal.SIGTERM)
  deadline = time.monotonic() + grace_seconds
  while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
    time.sleep(0.05)
  _send(processes, signal.SIGKILL)
  for process in processes:
    process.wait()


def _exit_code(code):
  return code if code > 0 else 128 - code


def main(argv: Sequence[str]) -> None:
  """Starts what stands after --."""
  command = list(argv[1:])
  if not command:
    raise app.UsageError('Give the command after --, as in: -- python my_program.py')
  argvs = command_lines(
      command, _NUM_PROCESSES.value, _PORT.value or free_port(),
      devices_per_process=_DEVICES.value, platform=_PLATFORM.value)
  if _DRY_RUN.value:
    print('\n'.join(shlex.join(argv) for argv in argvs))
    return
  sys.exit(run(argvs, grace_seconds=_GRACE.value))


if __name__ == '__main__':
  app.run(main)
