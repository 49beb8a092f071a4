"""The process that runs model-written code for `code_tests`. Standalone: never imported.

Usage: python -I code_runner.py JOB_FD RESULT_FD

Line 1 of the job is JSON: {"code", "seconds", "bytes", "program"}. A program is
run with its own stdin and stdout and that is all. Otherwise the code is run,
'loaded' is answered, and only then do the nonce and one line a test,
'kind hex(source)', arrive: the code cannot have seen them while it was loading.
Each result is a line, 'nonce index flag hex(repr(value))'; what the value is
compared with never enters this process. All that is used after the code ran is
bound beforehand or is a method of a C type, so replacing `os.write`, `repr` or
`json` changes nothing.
"""

import ctypes
import json
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _limit(seconds, num_bytes):
  """Caps this process and what it starts, and ties its life to its parent's."""
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
  resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
  resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
  resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(job_fd, result_fd):
  write, leave, run, value_of, show = os.write, os._exit, exec, eval, repr
  base_exception, to_bytes = BaseException, bytes.fromhex
  job = os.fdopen(job_fd, 'rb')
  first = json.loads(job.readline())
  _limit(first['seconds'], first['bytes'])
  if first['program']:
    run(compile(first['code'], 'answer.py', 'exec'), {'__name__': '__main__'})
    return
  namespace = {'__name__': 'answer'}
  try:
    run(compile(first['code'], 'answer.py', 'exec'), namespace)
  except base_exception:
    # SystemExit too: an answer that ends its own process has defined nothing.
    write(result_fd, b'failed\n')
    leave(1)
  write(result_fd, b'loaded\n')
  nonce = job.readline().strip()
  index = 0
  for line in job.readlines():
    kind, source = line.split()
    shown, flag = '', b'0'
    try:
      source = to_bytes(source.decode()).decode()
      if kind == b'value':
        shown = show(value_of(source, namespace))
      else:
        run(source, namespace)
      flag = b'1'
    except base_exception:
      shown = ''
    line = b'%s %d %s %s\n' % (
        nonce, index, flag, shown.encode('utf-8', 'backslashreplace').hex().encode())
    while line:
      line = line[write(result_fd, line):]
    index += 1
  leave(0)


if __name__ == '__main__':
  _run(int(sys.argv[1]), int(sys.argv[2]))
