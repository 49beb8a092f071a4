"""Tests of launch.local."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from launch import local


def launch(*flags, code=None, command=(), timeout=60):
  command = [sys.executable, '-c', textwrap.dedent(code)] if code else list(command)
  return subprocess.run(
      [sys.executable, '-m', 'launch.local', *flags, '--', *command], capture_output=True,
      text=True, timeout=timeout, check=False)


def alive(pid):
  try:
    with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
      return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
  except FileNotFoundError:
    return False


class TestCommandLines:

  def test_cpu(self):
    lines = local.command_lines(
        ['python', '-m', 'x'], 2, 1234, devices_per_process=4, platform='cpu')
    assert lines[1] == [
        'env', 'RLVR_COORDINATOR=localhost:1234', 'RLVR_NUM_PROCESSES=2', 'RLVR_PROCESS_ID=1',
        'PYTHONUNBUFFERED=1', 'JAX_PLATFORMS=cpu', 'JAX_NUM_CPU_DEVICES=4',
        'JAX_CPU_COLLECTIVES_IMPLEMENTATION=gloo', 'python', '-m', 'x']
    assert 'RLVR_PROCESS_ID=0' in lines[0] and len(lines) == 2

  def test_cuda_gives_each_process_its_own_devices(self):
    lines = local.command_lines(['x'], 2, 1, devices_per_process=2, platform='cuda')
    assert 'CUDA_VISIBLE_DEVICES=0,1' in lines[0] and 'CUDA_VISIBLE_DEVICES=2,3' in lines[1]
    assert not any(word.startswith('JAX_PLATFORMS') for word in lines[0])

  def test_dry_run_prints_what_a_shell_can_run_and_starts_nothing(self, tmp_path):
    target = tmp_path / 'made'
    done = launch('--dry_run', '--port=77', '--num_processes=1',
                  command=['touch', str(target), 'a b', '--num_processes=9'])
    assert done.returncode == 0 and not target.exists()
    assert done.stdout.startswith('env RLVR_COORDINATOR=localhost:77 RLVR_NUM_PROCESSES=1 ')
    assert done.stdout.endswith(f"touch {target} 'a b' --num_processes=9\n")

  def test_no_command_is_said(self):
    done = launch()
    assert done.returncode != 0 and 'Give the command after --' in done.stdout + done.stderr


class TestInitializeFromEnv:

  def test_alone(self):
    assert local.initialize_from_env({}) is False
    assert local.initialize_from_env({local.PROCESS_ID: ''}) is False

  @pytest.mark.parametrize('environ, message', [
      ({local.PROCESS_ID: '0'}, 'RLVR_PROCESS_ID set, but not RLVR_COORDINATOR, RLVR_NUM_PROC'),
      ({local.COORDINATOR: 'a:1', local.NUM_PROCESSES: 'x', local.PROCESS_ID: '0'}, 'integers'),
      ({local.COORDINATOR: 'a:1', local.NUM_PROCESSES: '2', local.PROCESS_ID: '2'},
       r'must lie in \[0, 2\), got 2'),
  ])
  def test_half_set_is_an_error(self, environ, message):
    with pytest.raises(ValueError, match=message):
      local.initialize_from_env(environ)

  def test_the_launcher_imports_no_jax(self):
    code = 'import sys, launch.local; sys.exit("jax" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0


class TestRun:

  def test_two_processes_add_up(self):
    done = launch('--num_processes=2', '--devices_per_process=2', code='''
        from launch import local
        assert local.initialize_from_env()
        import jax
        import jax.numpy as jnp
        ids = jnp.arange(2.) + 2 * jax.process_index()
        total = jax.pmap(lambda x: jax.lax.psum(x, 'data'), axis_name='data')(ids)
        print('total', jax.process_count(), jax.device_count(), float(total.addressable_data(0)[0]))
        ''')
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if 'total' in line)
    assert lines == ['[0] total 2 4 6.0', '[1] total 2 4 6.0']

  def test_a_failure_ends_the_others_with_its_code(self):
    begin = time.monotonic()
    done = launch('--grace_seconds=5', code='''
        import os, sys, time
        if os.environ['RLVR_PROCESS_ID'] == '1':
          time.sleep(.3)
          sys.stderr.write('no newline')
          sys.exit(7)
        print(os.getpid())
        time.sleep(60)
        ''')
    assert done.returncode == 7
    assert time.monotonic() - begin < 10
    assert '[1] no newline\n' in done.stderr
    assert not alive(int(done.stdout.removeprefix('[0] ')))

  def test_one_that_ignores_sigterm_is_killed(self):
    done = launch('--grace_seconds=0.3', code='''
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid())
        time.sleep(.5)
        if os.environ['RLVR_PROCESS_ID'] == '1':
          os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
        ''')
    assert done.returncode == 128 + signal.SIGKILL
    for line in done.stdout.splitlines():
      assert not alive(int(line[4:]))

  def test_children_of_a_failed_process_end_too(self):
    done = launch('--num_processes=1', code='''
        import subprocess, sys
        print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL).pid)
        sys.exit(3)
        ''')
    assert done.returncode == 3
    time.sleep(0.1)
    assert not alive(int(done.stdout.removeprefix('[0] ')))

  def test_ctrl_c_reaches_every_process_once_and_they_may_save(self):
    code = textwrap.dedent('''
        import time
        from rlvr.host import interrupt
        with interrupt.Interrupt() as stop:
          print('ready')
          while not stop.requested:
            time.sleep(.02)
        time.sleep(.3)
        print('saved')
        ''')
    launcher = subprocess.Popen(
        [sys.executable, '-m', 'launch.local', '--', sys.executable, '-c', code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert {launcher.stdout.readline() for _ in range(2)} == {'[0] ready\n', '[1] ready\n'}
    os.kill(launcher.pid, signal.SIGINT)
    out, _ = launcher.communicate(timeout=20)
    assert set(out.splitlines()) == {'[0] saved', '[1] saved'}
    assert launcher.returncode == 0

  def test_a_command_that_does_not_exist(self):
    done = launch('--num_processes=1', command=['no_such_program'])
    assert done.returncode == 127 and 'no_such_program' in done.stderr
