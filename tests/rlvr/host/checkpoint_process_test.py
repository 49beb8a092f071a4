"""Tests of rlvr.host.checkpoint that need processes of their own.

Killed in the middle of a save, a full disk, several devices, several processes.
"""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr.host import checkpoint

_FINGERPRINT = {'seed': 0}


def make_state(number):
  """A state whose every array says which step it is."""
  return {
      'step': jnp.int32(number),
      'params': {'w': jnp.arange(32.0).reshape(8, 4) + number, 'b': jnp.full((3,), number / 3)},
      'key': jax.random.key(number)}


def assert_same(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    assert x.dtype == y.dtype
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def child_code(code):
  here = str(pathlib.Path(__file__).parent)
  return (f'import sys; sys.path.insert(0, {here!r})\n'
          'import os\n'
          'import numpy as np\n'
          'from checkpoint_process_test import *\n'
          'from rlvr.host import checkpoint\n' + textwrap.dedent(code))


def run_child(code, **env):
  done = subprocess.run(
      [sys.executable, '-c', child_code(code)], env={**os.environ, **env}, capture_output=True,
      text=True, timeout=120, check=False)
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


class TestDevices:

  def test_weights_onto_a_mesh_of_several_devices(self, tmp_path):
    """Saved from one sharding, read into another; needs its own device count."""
    run_child(f'''
        import jax
        import jax.numpy as jnp
        from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
        mesh = jax.make_mesh((4,), ('data',), axis_types=(AxisType.Auto,))
        put = lambda tree, spec: jax.tree.map(
            lambda x: jax.device_put(x, NamedSharding(mesh, spec)), tree)
        make = lambda: checkpoint.Checkpointer({str(tmp_path)!r}, fingerprint={{}})
        state = make_state(9)
        sharded = {{**state, 'params': put(state['params'], P())}}
        sharded['params']['w'] = put(state['params']['w'], P('data'))
        make().save(1, sharded, {{}})
        like = {{**state, 'params': put(state['params'], P())}}
        like['params']['w'] = put(jnp.zeros((8, 4)), P(None, 'data'))
        found, _ = make().restore(like)
        assert found['params']['w'].sharding.spec == P(None, 'data'), found['params']['w'].sharding
        assert len(found['params']['w'].addressable_shards) == 4
        assert_same(found, state)
        alone = make().restore_params(like['params'])
        assert alone['w'].sharding.spec == P(None, 'data')
        assert_same(alone, state['params'])
        ''', JAX_NUM_CPU_DEVICES='4')

  def test_several_processes_save_one_array_together(self, tmp_path):
    code = child_code(f'''
        from launch import local
        assert local.initialize_from_env()
        import jax
        import jax.numpy as jnp
        from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
        mesh = jax.make_mesh((2,), ('data',), axis_types=(AxisType.Auto,))
        place = lambda array, spec: jax.make_array_from_callback(
            array.shape, NamedSharding(mesh, spec), lambda index: array[index])
        values = np.arange(8., dtype=np.float32)
        make = lambda: checkpoint.Checkpointer({str(tmp_path / 'c')!r}, keep=1, fingerprint={{}})
        writer = make()
        for step in (1, 2):
          state = {{'params': {{'w': place(values * step, P('data'))}}}}
          writer.save(step, state, {{'step': step}})
        like = {{'params': {{'w': place(values * 0, P('data'))}}}}
        found, cursor = make().restore(like)
        mine = found['params']['w'].addressable_data(0)
        np.testing.assert_array_equal(mine, 2 * np.split(values, 2)[jax.process_index()])
        assert cursor == {{'step': 2}} and writer.all_steps() == [2]
        writer.close()
        print('same')
        ''')
    done = subprocess.run(
        [sys.executable, '-m', 'launch.local', '--', sys.executable, '-c', code],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert {line for line in done.stdout.splitlines() if 'same' in line} == {'[0] same', '[1] same'}


class TestDisk:

  def test_a_full_disk_leaves_the_last_checkpoint_and_no_remains(self, tmp_path):
    """A limit on file size stands for the full disk: writes fail half way."""
    run_child(f'''
        import resource
        make = lambda: checkpoint.Checkpointer({str(tmp_path)!r}, fingerprint={_FINGERPRINT!r})
        state = make_state(1)
        big = {{**state, 'params': {{'b': np.random.rand(200_000)}}}}
        writer = make()
        writer.save(1, big, {{}})
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
          writer.save(2, big, {{}})
        except OSError as error:
          print('said:', error)
        else:
          raise SystemExit('no error')
        assert os.listdir({str(tmp_path)!r}) == ['1']
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        writer.save(2, big, {{}})  # Space was made: the same object works again.
        ''')
    assert sorted(p.name for p in tmp_path.iterdir()) == ['1', '2']

  @pytest.mark.slow
  def test_killed_at_any_moment_the_latest_restores_bit_equal(self, tmp_path):
    """kill -9 in the middle of saving, again and again on the same folder."""
    directory = tmp_path / 'checkpoints'
    code = f'''
        checkpointer = checkpoint.Checkpointer({str(directory)!r}, keep=2,
                                               fingerprint={_FINGERPRINT!r})
        step = (checkpointer.latest_step() or 0) + 1
        while True:
          checkpointer.save(step, make_state(step), {{'step': step}})
          print(step, flush=True)
          step += 1
        '''
    saw_temporary = 0
    rng = np.random.default_rng(0)
    last = 0
    for _ in range(4):
      child = subprocess.Popen(
          [sys.executable, '-c', child_code(code)], stdout=subprocess.PIPE, text=True)
      child.stdout.readline()  # One save has ended: it is up to speed.
      time.sleep(0.3 * rng.random())
      child.send_signal(signal.SIGKILL)
      said = child.communicate()[0].split()
      saw_temporary += any('tmp' in p.name for p in directory.iterdir())
      reader = checkpoint.Checkpointer(directory, fingerprint=_FINGERPRINT)
      step = reader.latest_step()
      # What save said is there, is there; the one it was at may be too.
      last = max(last, int(said[-1]) if said else last + 1)
      assert step in (last, last + 1)
      last = step
      state, cursor = reader.restore(make_state(0))
      assert cursor == {'step': step}
      assert_same(state, make_state(step))
    assert saw_temporary > 0, 'no kill fell inside a save: the test shows nothing'
    (directory / '900.orbax-checkpoint-tmp').mkdir()  # Of a step that will not come again.
    checkpointer = checkpoint.Checkpointer(directory, fingerprint=_FINGERPRINT)
    checkpointer.save(last + 1, make_state(0), {})
    checkpointer.close()
    assert not any('tmp' in p.name for p in directory.iterdir())
