"""One step on eight simulated devices by every wrapper, and the sampler once a device.

The devices must be asked for before jax starts and would slow down every other
test, so this file runs itself as a process; that process reports numbers and
the tests judge them. Plain gradient descent, since Adam hides a wrong scale.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
NUM_DEVICES, WIDTH = 8, 8
WRAPPERS = ('microbatched', 'jit', 'pmap', 'mesh 8', 'mesh 4 x 2')


def _flat(tree):
  import jax
  return np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)])


def _case():
  """A policy, its terms, ragged, dead, empty and ungraded rows, and a state."""
  import jax
  import jax.numpy as jnp
  import optax

  from rlvr import aggregate
  from rlvr import losses
  from rlvr import masks
  from rlvr import testing
  from rlvr import types
  from rlvr.policy import tiny
  from rlvr.policy import transformer
  from rlvr.train import prepare

  policy = transformer.make_policy(tiny.config(vocab_size=32), remat='none')  # compiles faster
  rng = np.random.default_rng(0)
  sizes = rng.integers(1, 5, 20)
  rewards = [rng.integers(0, 2, n).tolist() for n in sizes]
  rewards[3], rewards[7] = [1, 1, 1, 1], [0, None, 1]  # dead; partly ungraded
  num_rows = sum(map(len, rewards))
  rollout = testing.make_rollout(
      rewards, lengths=rng.integers(0, WIDTH + 1, num_rows).tolist(), max_tokens=WIDTH, padding=3)
  term = lambda loss: prepare.Term(loss, masks.policy_tokens, aggregate.token_mean)
  terms = {'pg': term(losses.surrogate), 'kl': term(losses.kl_loss)}
  params = jax.jit(policy.init)(jax.random.key(0))
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optax.sgd(1.0).init(params),
      anchors={}, method={}, key=jax.random.key(0),
      knobs={'coef_pg': jnp.float32(1), 'coef_kl': jnp.float32(0.2)})
  return policy, terms, rollout, state


def _steps(report):
  """One step by every wrapper on the same rollout; differences to one whole cell."""
  import jax
  import jax.numpy as jnp
  import optax

  from rlvr import advantages
  from rlvr import corrections
  from rlvr import rewards
  from rlvr import selection
  from rlvr.train import cells
  from rlvr.train import parallel
  from rlvr.train import prepare
  from rlvr.train import update

  policy, terms, rollout, state = _case()
  recipe = prepare.Recipe(
      reward=rewards.outcome, advantage=advantages.grpo, transforms=(),
      selection=selection.keep_all, correction=corrections.none, terms=terms,
      advantage_only=False, score_old=False, score_ref=False, score_first=False, minibatches=1)

  def prepared(devices, num_cells, rows, prompts):
    layout = cells.Layout(devices, num_cells, rows, prompts, (WIDTH,))
    (batch,), _, metrics = jax.jit(prepare.make_prepare(recipe, policy, layout))(rollout, state)
    assert float(metrics['pack_left_out']) == 0
    return batch, update.make_update(policy, terms, optax.sgd(1.0), layout)

  whole, step = prepared(1, 1, rollout.where.shape[0], 20)
  # Copies: the wrappers donate the state.
  fresh = lambda: jax.tree.map(jnp.copy, state)
  expected, expected_metrics = jax.jit(step)(state, whole)
  moved = _flat(expected.params) - _flat(state.params)
  norm = np.linalg.norm
  report['moved'] = norm(moved)

  def compare(name, result):
    new, metrics = result
    off = norm(_flat(new.params) - _flat(expected.params)) / norm(moved)
    report[name] = {
        'params': off, 'metrics': {
            key: [float(metrics[key]), float(value)] for key, value in expected_metrics.items()}}
    return new

  batch, step = prepared(1, 16, 5, 3)
  report['cells'] = int(batch.used[0])
  compare('microbatched', jax.jit(step)(state, batch))
  batch, step = prepared(NUM_DEVICES, 3, 5, 3)
  report['used'] = np.asarray(batch.used).tolist()
  compare('jit', jax.jit(step)(state, batch))

  counted = []
  on_pmap = parallel.on_pmap(lambda *args, **kwargs: counted.append(1) or step(*args, **kwargs))
  # Where pmap will leave it: a state that stands elsewhere is a second program.
  everywhere = jax.sharding.NamedSharding(
      jax.sharding.Mesh(np.array(jax.devices()), (parallel.DATA,)), jax.sharding.PartitionSpec())
  new = compare('pmap', on_pmap(jax.device_put(fresh(), everywhere), batch))
  report['pmap devices'] = len(jax.tree.leaves(new.params)[0].sharding.device_set)
  report['pmap stacked'] = bool(jax.tree.leaves(new.params)[0].shape
                                != jax.tree.leaves(state.params)[0].shape)
  on_pmap(new, batch)
  report['pmap traces'] = len(counted)
  for data, fsdp in ((8, 1), (4, 2)):
    mesh = parallel.make_mesh(data, fsdp)
    placed = jax.device_put(fresh(), parallel.state_sharding(state, mesh))
    name = 'mesh 8' if fsdp == 1 else 'mesh 4 x 2'
    run = parallel.on_mesh(step, mesh, state)
    new = compare(name, run(placed, batch))
    split = [x for x in jax.tree.leaves(new.params) if not x.sharding.is_fully_replicated]
    report[f'{name} split'] = len(split)
    if fsdp == 1:
      text = run.lower(state, batch).compile().as_text()
      report['mesh gathers'] = text.count('all-gather(') + text.count('all-gather-start(')


def _sampling(report):
  """Each device samples its share: the same as that share alone, with its key."""
  import jax
  import jax.numpy as jnp

  from rlvr import types
  from rlvr.samplers import decode
  from rlvr.train import parallel

  policy, _, _, state = _case()
  prompts = types.Prompts(
      tokens=jnp.asarray(np.random.default_rng(1).integers(1, 32, (16, 3)), jnp.int32),
      length=jnp.tile(jnp.array([3, 1]), 8), id=jnp.arange(16))
  rollout, _ = decode.grow(decode.begin(prompts, 48, WIDTH), jnp.full(16, 3))
  sample = lambda params, rollout, key, version: decode.sample(
      params, rollout, key, {}, policy=policy, slots=4, stop_ids=tuple(range(24, 32)),
      version=version)
  split = parallel.split_rows(rollout, NUM_DEVICES)
  keys = parallel.device_keys(jax.random.key(5), NUM_DEVICES)
  out, stats = parallel.on_devices(sample)(state.params, split, keys, 4)
  one = jax.jit(sample)
  alone = [one(state.params, jax.tree.map(lambda x, d=d: x[d], split), keys[d], 4)
           for d in range(NUM_DEVICES)]
  report['same as alone'] = all(
      np.array_equal(np.asarray(getattr(out, name))[d], getattr(share, name))
      for d, (share, _) in enumerate(alone)
      for name in ('tokens', 'valid', 'stop', 'version', 'prompt'))
  report['iterations'] = [np.asarray(stats.iterations).tolist(),
                          [int(s.iterations) for _, s in alone]]
  joined = parallel.join_rows(out)
  report['finished'] = bool((np.asarray(joined.stop) != types.RUNNING).all())
  report['prompts kept'] = bool(np.array_equal(joined.prompt, rollout.prompt) and np.array_equal(
      joined.prompts.tokens, prompts.tokens))
  back = parallel.join_rows(split)
  report['join undoes split'] = all(
      np.array_equal(a, b) for a, b in zip(
          jax.tree.leaves(back), jax.tree.leaves(rollout), strict=True))
  report['local prompts'] = int(np.asarray(split.prompt).max())
  # Scored whole, on one device, the samples have the log-probs that were recorded.
  logp = jax.jit(lambda p: policy.score(p, joined, {}).logp)(state.params)
  report['logp gap'] = float(np.abs(
      np.where(joined.valid, logp, 0.0) - np.asarray(joined.rollout_logp)).max())
  report['distinct'] = len({tuple(row) for row in np.asarray(joined.tokens).tolist()})


@pytest.fixture(scope='module')
def report():
  env = os.environ | {
      'XLA_FLAGS': f'--xla_force_host_platform_device_count={NUM_DEVICES}',
      'JAX_PLATFORMS': 'cpu', 'JAX_NUMPY_RANK_PROMOTION': 'raise'}
  done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True,
                        cwd=ROOT, timeout=600)
  assert done.returncode == 0, done.stderr[-4000:]
  return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
class TestStep:

  @pytest.mark.parametrize('wrapper', WRAPPERS)
  def test_is_the_whole_batch_on_one_device(self, report, wrapper):
    assert report['moved'] > 0.1
    # Relative to the step: f32 sums in another order, and nothing else.
    assert report[wrapper]['params'] < 1e-6
    for name, (value, expected) in report[wrapper]['metrics'].items():
      assert value == pytest.approx(expected, rel=1e-5, abs=1e-6), name

  def test_every_layout_was_put_to_use(self, report):
    assert report['cells'] > 4
    used = report['used']
    assert min(used) >= 1 and max(used) > 1

  def test_pmap_state_is_replicated_never_stacked_and_traced_once(self, report):
    assert report['pmap devices'] == NUM_DEVICES
    assert not report['pmap stacked']
    assert report['pmap traces'] == 1

  def test_the_mesh_splits_weights_over_fsdp_alone(self, report):
    assert report['mesh 8 split'] == 0
    assert report['mesh 4 x 2 split'] >= 4

  def test_local_indices_gather_nothing_across_devices(self, report):
    assert report['mesh gathers'] == 0


@pytest.mark.slow
class TestSampling:

  def test_each_device_does_what_it_would_do_alone(self, report):
    assert report['same as alone']
    each, alone = report['iterations']
    assert each == alone and len(set(each)) > 1  # it leaves when its own rows are done

  def test_rows_come_back_finished_and_in_place(self, report):
    assert report['finished'] and report['prompts kept'] and report['join undoes split']
    assert report['local prompts'] == 1  # two prompts a device, counted from 0
    assert report['logp gap'] < 1e-4
    assert report['distinct'] > 30  # devices draw with keys of their own


if __name__ == '__main__':
  sys.path[0] = str(ROOT)  # not tests/, whose folders have the packages' names
  numbers = {}
  _steps(numbers)
  _sampling(numbers)
  print(json.dumps(numbers))
