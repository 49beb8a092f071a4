"""Tests of rlvr.host.checkpoint: bit-equal, whole or nothing, and clear refusals."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr.host import checkpoint

# Reading a damaged checkpoint leaves Orbax's other reads unawaited; they are collected later.
pytestmark = pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')

_FINGERPRINT = {'model': {'width': 4, 'sizes': (1, 2)}, 'seed': 0}
_OPTIMIZER = optax.adamw(1e-2)


@flax.struct.dataclass
class State:
  """The fields of rlvr.types.TrainState."""
  step: jax.Array
  params: dict
  opt_state: tuple
  anchors: dict
  method: dict
  knobs: dict
  key: jax.Array


def make_state(seed=0, width=4):
  key = jax.random.key(seed)
  params = {'w': jax.random.normal(key, (8, width)), 'b': jnp.full((3,), 1e-6)}
  return State(
      step=jnp.int32(0), params=params, opt_state=_OPTIMIZER.init(params),
      anchors={'ref': jax.tree.map(jnp.copy, params)}, method={'none': {}},
      knobs={'coef': jnp.float32(0.1)}, key=key)


@jax.jit
def train_step(state):
  """Draws from the stored key, as a sampler would, and steps."""
  draw = jax.random.normal(jax.random.fold_in(state.key, state.step), (8, 4))
  grads = {'w': draw, 'b': jnp.full((3,), 1e-7)}
  updates, opt_state = _OPTIMIZER.update(grads, state.opt_state, state.params)
  return state.replace(
      step=state.step + 1, params=optax.apply_updates(state.params, updates),
      opt_state=opt_state), draw


def raw(tree):
  """Leaves as NumPy arrays, typed keys as their integers."""
  return [
      np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
      for x in jax.tree.leaves(tree)]


def assert_same(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(raw(a), raw(b), strict=True):
    assert x.dtype == y.dtype and x.shape == y.shape
    assert x.tobytes() == y.tobytes()


@pytest.fixture
def make(tmp_path):
  made = []

  def build(directory=tmp_path / 'checkpoints', *, keep=2, fingerprint=_FINGERPRINT):
    made.append(checkpoint.Checkpointer(directory, keep=keep, fingerprint=fingerprint))
    return made[-1]

  yield build
  for one in made:
    one.close()


class TestRoundTrip:

  def test_fault_51_restores_bit_equal_in_f32_with_typed_key_and_cursor(self, make):
    state = make_state(3)
    make().save(7, state, {'num_prompts': 12, 'epoch': [1, 2]})
    found, cursor = make().restore(make_state(0))
    assert_same(found, state)
    assert found.params['w'].dtype == jnp.float32
    assert isinstance(found.opt_state, tuple) and isinstance(found, State)
    assert jnp.issubdtype(found.key.dtype, jax.dtypes.prng_key)
    assert cursor == {'num_prompts': 12, 'epoch': [1, 2]}

  def test_fault_51_a_bf16_like_is_refused_not_cast(self, make):
    make().save(1, make_state(), {})
    like = make_state()
    like = like.replace(params=jax.tree.map(lambda x: x.astype(jnp.bfloat16), like.params))
    with pytest.raises(ValueError, match=r'params\.b is float32\[3\] there and bfloat16\[3\]'):
      make().restore(like)
    with pytest.raises(ValueError, match=r'params\.b is float32\[3\] there and bfloat16\[3\]'):
      make().restore_params(like.params)

  def test_fault_43_three_steps_and_a_resume_equal_six(self, make):
    state = make_state(5)
    whole, drawn = state, []
    for _ in range(6):
      whole, draw = train_step(whole)
      drawn.append(np.asarray(draw))
    for _ in range(3):
      state, _ = train_step(state)
    make().save(3, state, {})
    state, _ = make().restore(make_state(0))
    for step in range(3, 6):
      state, draw = train_step(state)
      np.testing.assert_array_equal(draw, drawn[step])
    assert_same(state, whole)

  def test_like_and_saved_state_may_be_donated(self, make):
    state = make_state(1)
    expected = [np.array(x) for x in raw(state)]  # A copy: a view would forbid the donation.
    make().save(1, state, {})
    donated = jax.jit(lambda s: jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x * 0, s),
        donate_argnums=0)(state)
    jax.block_until_ready(donated)
    assert state.params['w'].is_deleted()
    found, _ = make().restore(state)
    for x, y in zip(raw(found), expected, strict=True):
      np.testing.assert_array_equal(x, y)

  def test_weights_only_ignores_optimizer_and_fingerprint(self, make):
    state = make_state(2)
    make().save(4, state, {})
    found = make(fingerprint={'other': 1}).restore_params(make_state(0).params)
    assert_same(found, state.params)

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
        sharded = state.replace(params=put(state.params, P()))
        sharded.params['w'] = put(state.params['w'], P('data'))
        make().save(1, sharded, {{}})
        like = state.replace(params=put(state.params, P()))
        like.params['w'] = put(jnp.zeros((8, 4)), P(None, 'data'))
        found, _ = make().restore(like)
        assert found.params['w'].sharding.spec == P(None, 'data'), found.params['w'].sharding
        assert len(found.params['w'].addressable_shards) == 4
        assert_same(found, state)
        alone = make().restore_params(like.params)
        assert alone['w'].sharding.spec == P(None, 'data')
        assert_same(alone, state.params)
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


class TestFolder:

  def test_keeps_the_newest(self, make):
    checkpointer, state = make(keep=2), make_state()
    for step in (1, 2, 10):
      checkpointer.save(step, state, {'step': step})
    assert checkpointer.all_steps() == [2, 10]
    assert checkpointer.latest_step() == 10
    assert checkpointer.restore(state, step=2)[1] == {'step': 2}

  def test_saving_the_latest_again_is_a_no_op_and_an_earlier_one_an_error(self, make):
    checkpointer = make()
    checkpointer.save(5, make_state(1), {'a': 1})
    checkpointer.save(5, make_state(2), {'a': 2})
    assert checkpointer.restore(make_state())[1] == {'a': 1}
    with pytest.raises(ValueError, match='Step 3 cannot be saved .* already holds step 5'):
      checkpointer.save(3, make_state(), {})

  def test_an_empty_or_missing_folder_is_named(self, make, tmp_path):
    assert make().latest_step() is None
    with pytest.raises(ValueError, match='checkpoints has no checkpoint; it has none'):
      make().restore(make_state())
    make().save(2, make_state(), {})
    with pytest.raises(ValueError, match=r'has no checkpoint of step 9; it has steps \[2\]'):
      make().restore(make_state(), step=9)
    assert not (tmp_path / 'elsewhere').exists()

  def test_another_config_is_one_sentence(self, make):
    make().save(1, make_state(), {})
    other = make(fingerprint={'model': {'width': 8, 'sizes': (1, 2)}, 'seed': 0})
    for act in (lambda: other.restore(make_state()), lambda: other.save(2, make_state(), {})):
      with pytest.raises(ValueError, match='model.width is 4 there and 8 here'):
        act()
    with pytest.raises(ValueError, match="seed is 0 there and 'absent' here"):
      make(fingerprint={'model': {'width': 4, 'sizes': [1, 2]}}).restore(make_state())

  def test_another_tree_names_the_leaf(self, make):
    make().save(1, make_state(), {})
    with pytest.raises(ValueError, match=r'params\.w is float32\[8, 4\] there and float32\[8, 5\]'):
      make().restore_params(make_state(width=5).params)
    like = make_state()
    with pytest.raises(ValueError, match=r'knobs\.extra is absent there and float32\[\] here'):
      make().restore(like.replace(knobs={**like.knobs, 'extra': jnp.float32(0)}))

  @pytest.mark.parametrize('damage', ['state', 'config', 'cursor', 'state/manifest.ocdbt', 'all',
                                      'state/d', 'state/_METADATA'])
  def test_a_damaged_checkpoint_is_named_and_the_other_offered(self, make, tmp_path, damage):
    checkpointer = make()
    for step in (1, 2):
      checkpointer.save(step, make_state(step), {})
    path = tmp_path / 'checkpoints' / '2'
    shutil.rmtree(path)
    shutil.copytree(tmp_path / 'checkpoints' / '1', path)
    broken = path if damage == 'all' else path / damage
    assert broken.exists()
    if broken.is_dir():
      shutil.rmtree(broken)
    else:
      broken.unlink()
    if damage == 'all':
      path.mkdir()
    with pytest.raises(ValueError, match=r'2 is damaged or incomplete .*steps \[1\] instead'):
      make().restore(make_state())
    assert_same(make().restore(make_state(), step=1)[0], make_state(1))


  def test_files_cut_short_are_found(self, make, tmp_path):
    state = make_state()
    state = state.replace(params={**state.params, 'b': jax.random.normal(state.key, (30_000,))})
    make().save(1, state, {})
    # The largest file holds the large array; the small ones lie in the index.
    files = sorted((tmp_path / 'checkpoints' / '1' / 'state').rglob('d/*'),
                   key=lambda path: path.stat().st_size)
    assert files[-1].stat().st_size > 50_000
    os.truncate(files[-1], files[-1].stat().st_size // 2)
    with pytest.raises(ValueError, match='1 is damaged or incomplete .*there is no other'):
      make().restore(state)
    with pytest.raises(ValueError, match='1 is damaged or incomplete .*there is no other'):
      make().restore_params(state.params)


class TestDisk:

  def test_a_file_in_the_way_is_one_sentence(self, make, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(OSError, match='Checkpoint 1 cannot be written to .*file/ck'):
      make(tmp_path / 'file' / 'ck').save(1, make_state(), {})

  def test_a_full_disk_leaves_the_last_checkpoint_and_no_remains(self, make, tmp_path):
    """A limit on file size stands for the full disk: writes fail half way."""
    run_child(f'''
        import resource
        make = lambda: checkpoint.Checkpointer({str(tmp_path)!r}, fingerprint={_FINGERPRINT!r})
        state = make_state(1)
        big = state.replace(params={{**state.params, 'b': np.random.rand(200_000)}})
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
  def test_killed_at_any_moment_the_latest_restores_bit_equal(self, make, tmp_path):
    """kill -9 in the middle of saving, again and again on the same folder."""
    directory = tmp_path / 'checkpoints'
    code = f'''
        checkpointer = checkpoint.Checkpointer({str(directory)!r}, keep=2,
                                               fingerprint={_FINGERPRINT!r})
        step = (checkpointer.latest_step() or 0) + 1
        state = make_state()
        print('ready', flush=True)
        while True:
          checkpointer.save(step, numbered(state, step), {{'step': step}})
          step += 1
        '''
    saw_temporary = 0
    rng = np.random.default_rng(0)
    last = 0
    for _ in range(4):
      child = subprocess.Popen(
          [sys.executable, '-c', child_code(code)], stdout=subprocess.PIPE, text=True)
      assert child.stdout.readline() == 'ready\n'
      time.sleep(0.15 + 0.25 * rng.random())
      child.send_signal(signal.SIGKILL)
      child.wait()
      child.stdout.close()
      saw_temporary += any('tmp' in p.name for p in directory.iterdir())
      reader = make(directory)
      step = reader.latest_step() or 0
      assert step >= last
      last = step
      if step:
        state, cursor = reader.restore(make_state())
        assert cursor == {'step': step}
        assert_same(state, numbered(make_state(), step))
    assert last > 0
    assert saw_temporary > 0, 'no kill fell inside a save: the test shows nothing'
    (directory / '900.orbax-checkpoint-tmp').mkdir()  # Of a step that will not come again.
    checkpointer = make(directory)
    checkpointer.save(last + 1, make_state(), {})
    assert not any('tmp' in p.name for p in directory.iterdir())


def numbered(state, step):
  """A state whose every array says which step it is, large enough to take a while."""
  return state.replace(
      step=jnp.int32(step), params=jax.tree.map(lambda x: jnp.full_like(x, step), state.params))


def child_code(code):
  here = str(pathlib.Path(__file__).parent)
  return (f'import sys; sys.path.insert(0, {here!r})\n'
          'import os\n'
          'import numpy as np\n'
          'from checkpoint_test import assert_same, make_state, numbered\n'
          'from rlvr.host import checkpoint\n' + textwrap.dedent(code))


def run_child(code, **env):
  done = subprocess.run(
      [sys.executable, '-c', child_code(code)], env={**os.environ, **env}, capture_output=True,
      text=True, timeout=120, check=False)
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout
