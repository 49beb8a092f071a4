"""Tests of rlvr.host.checkpoint: bit-equal, whole or nothing, and clear refusals."""

import gc
import os
import shutil

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr.host import checkpoint

# Reading a damaged checkpoint leaves Orbax's other reads unawaited; `make` collects them.
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
  gc.collect()


class TestRoundTrip:

  def test_restores_bit_equal_in_f32_with_typed_key_and_cursor(self, make):
    """fault 51: the f32 master stays f32."""
    state = make_state(3)
    make().save(7, state, {'num_prompts': 12, 'epoch': [1, 2]})
    found, cursor = make().restore(make_state(0))
    assert_same(found, state)
    assert found.params['w'].dtype == jnp.float32
    assert isinstance(found.opt_state, tuple) and isinstance(found, State)
    assert jnp.issubdtype(found.key.dtype, jax.dtypes.prng_key)
    assert cursor == {'num_prompts': 12, 'epoch': [1, 2]}

  def test_a_bf16_like_is_refused_not_cast(self, make):
    """fault 51: Orbax alone would cast the master weights."""
    make().save(1, make_state(), {})
    like = make_state()
    like = like.replace(params=jax.tree.map(lambda x: x.astype(jnp.bfloat16), like.params))
    with pytest.raises(ValueError, match=r'params\.b is float32\[3\] there and bfloat16\[3\]'):
      make().restore(like)
    with pytest.raises(ValueError, match=r'params\.b is float32\[3\] there and bfloat16\[3\]'):
      make().restore_params(like.params)

  def test_three_steps_and_a_resume_equal_six(self, make):
    """fault 43: the key is stored, so the same numbers are drawn and trained on."""
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
