"""SFPO around a policy with a critic, on two simulated devices, by every wrapper.

The devices must be asked for before jax starts, so this file runs itself as a
process. Plain gradient descent, since Adam hides a wrong scale.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def _main():
  import actor_critic_test as case
  import jax
  import jax.numpy as jnp
  import numpy as np
  import optax

  from rlvr.train import actor_critic
  from rlvr.train import cells
  from rlvr.train import parallel
  from rlvr.train import prepare
  from rlvr.train import slow_fast

  def steps(devices, num_cells):
    """The step of a layout and its batch of the same rollout."""
    layout = cells.Layout(devices, num_cells, 4, 2, (4,))
    update = actor_critic.make_actor_critic(
        case.POLICY, {'pg': case.RECIPE.terms['pg']}, {'value': case.RECIPE.terms['value']},
        optax.sgd(1.0), optax.sgd(.5), layout, wrap=slow_fast.sfpo, critic_updates=2)
    _, state = case.make(wrap=slow_fast.sfpo, critic_updates=2)
    make = prepare.make_prepare(case.RECIPE, case.POLICY, layout)
    (batch,), _, _ = jax.jit(make)(case.ROLLOUT, state)
    return update.step, state, batch

  flat = lambda tree: np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(tree)])
  step, state, batch = steps(1, 1)
  expected, metrics = jax.jit(step)(state, batch)
  report = {'moved': float(np.abs(flat(expected.params) - flat(state.params)).max()), 'off': {}}

  def compare(name, result):
    new, measured = result
    report['off'][name] = [
        float(np.abs(flat(tree) - flat(other)).max())
        for tree, other in ((new.params, expected.params), (new.method, expected.method),
                            (measured, metrics))]

  step, state, batch = steps(2, 2)
  fresh = lambda place: jax.device_put(jax.tree.map(jnp.copy, state), place)
  report['used'] = np.asarray(batch.used).tolist()
  compare('jit', jax.jit(step)(state, batch))
  compare('pmap', parallel.on_pmap(step)(fresh(parallel.shared()), batch))
  for data, fsdp in ((2, 1), (1, 2)):
    mesh = parallel.make_mesh(data, fsdp)
    placed = fresh(parallel.state_sharding(state, mesh))
    compare(f'mesh {data} x {fsdp}', parallel.on_mesh(step, mesh, state)(placed, batch))
  print(json.dumps(report))


@pytest.mark.slow
def test_every_wrapper_takes_the_step_of_one_device():
  env = os.environ | {'XLA_FLAGS': '--xla_force_host_platform_device_count=2',
                      'JAX_PLATFORMS': 'cpu', 'JAX_NUMPY_RANK_PROMOTION': 'raise'}
  done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True,
                        cwd=ROOT, timeout=600)
  assert done.returncode == 0, done.stderr[-4000:]
  report = json.loads(done.stdout.splitlines()[-1])
  assert report['moved'] > .1 and min(report['used']) >= 1
  assert set(report['off']) == {'jit', 'pmap', 'mesh 2 x 1', 'mesh 1 x 2'}
  for name, off in report['off'].items():
    assert max(off) < 1e-5, f'{name}: {off}'


if __name__ == '__main__':
  sys.path[:1] = [str(ROOT), str(pathlib.Path(__file__).parent)]
  _main()
