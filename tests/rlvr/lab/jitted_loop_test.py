"""The jitted loop: equal to its stages called one by one from the host, and it learns."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import corrections
from rlvr import lab
from rlvr import losses
from rlvr import masks
from rlvr import memory
from rlvr import optimizer
from rlvr import selection
from rlvr import types
from rlvr.lab import jitted_loop as loop
from rlvr.lab import task as task_lib
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import update

P, G = 4, 4
CONFIG = dataclasses.replace(
    tiny.config(vocab_size=task_lib.VOCAB_SIZE), num_layers=1, d_model=16, d_ff=32)
POLICY = transformer.make_policy(CONFIG, remat='none')


def make_stages(task):
  """GRPO on a task, nothing jitted."""
  terms = {'pg': prepare.Term(losses.surrogate, masks.policy_tokens, aggregate.token_mean)}
  recipe = prepare.Recipe(
      reward=lambda r: r.columns[:, 1], advantage=advantages.grpo, transforms=(),
      selection=selection.keep_all, correction=corrections.none, terms=terms,
      advantage_only=True, score_old=False, score_ref=False, score_first=False, minibatches=1)
  layout = cells.Layout(1, 1, P * G, P, (task.max_tokens,))
  optim = optimizer.adam(learning_rate=3e-3)
  sample = lambda params, rollout, key, version: decode.sample(
      params, rollout, key, {}, policy=POLICY._replace(take_slots=None),
      slots=rollout.where.shape[0], slots_per_prompt=1, stop_ids=(task_lib.EOS,),
      version=version)[0]
  stages = loop.Stages(
      sample=sample, prepare=prepare.make_prepare(recipe, POLICY, layout),
      update=update.make_update(POLICY, terms, optim, layout), finish=memory.make_finish(()))

  def init(key):
    params = POLICY.init(key)
    return types.TrainState(
        step=jnp.zeros((), jnp.int32), params=params, opt_state=optim.init(params), anchors={},
        method={}, knobs={'coef_pg': jnp.float32(1.0)}, key=key)

  return stages, init


@pytest.fixture(name='parts', scope='module')
def _parts():
  task = lab.sort()
  stages, init = make_stages(task)
  return task, stages, init, loop.make_step(task, stages, num_prompts=P, num_responses=G)


class TestStep:

  def test_is_the_stages_called_one_by_one(self, parts):
    task, stages, init, step = parts
    whole, metrics = jax.jit(functools.partial(loop.train, step, num_steps=3))(
        jax.jit(init)(jax.random.key(0)))

    # As the host loop does it: each stage a program of its own, grading in between.
    sample, prepared, taken, finish = map(jax.jit, stages[:4])
    state = jax.jit(init)(jax.random.key(0))
    for number in range(3):
      key = jax.random.fold_in(state.key, state.step)
      rollout = loop.begin(task, jax.random.fold_in(key, 4), P, G)
      rollout = sample(state.params, rollout, jax.random.fold_in(jax.random.fold_in(key, 0), 0),
                       state.step)
      tokens, valid = np.asarray(rollout.tokens), np.asarray(rollout.valid)
      rollout = loop.grade(task, rollout.replace(
          tokens=jnp.asarray(tokens), valid=jnp.asarray(valid)))
      (batch,), rollout, counts = prepared(rollout, state)
      state, measured = taken(state, batch)
      state = finish(state, rollout, measured)
      np.testing.assert_allclose(metrics['reward'][number], counts['reward'], rtol=1e-6)
      np.testing.assert_allclose(metrics['loss'][number], measured['loss'], rtol=1e-4, atol=1e-6)
    assert int(whole.step) == 3
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6),
                 whole.params, state.params)

  def test_seeds_differ_and_repeat(self, parts):
    _, _, init, step = parts
    run = jax.jit(lambda seeds: loop.over_seeds(
        lambda seed: loop.train(step, init(jax.random.key(seed)), 2)[1]['reward'], seeds))
    first, again = run(jnp.array([0, 1])), run(jnp.array([1, 0]))
    np.testing.assert_allclose(first, again[::-1], rtol=1e-6)
    assert not np.allclose(first[0], first[1])

  def test_it_learns(self, parts):
    _, _, init, step = parts
    _, metrics = jax.jit(functools.partial(loop.train, step, num_steps=120))(
        jax.jit(init)(jax.random.key(0)))
    reward = np.asarray(metrics['reward'])
    assert reward[-20:].mean() > reward[:20].mean() + .03, (reward[:20], reward[-20:])


class TestEvaluate:

  def test_pass_at_k_by_hand(self, parts):
    """A policy that is right on its first sample of every prompt, and on no other."""
    task = parts[0]

    def sample(params, rollout, key, version):
      del params, key, version
      drawn = task.draw(jax.random.split(jax.random.key(0))[0], 3)
      first = jnp.arange(rollout.where.shape[0]) % 5 == 1
      tokens = jnp.where(first[:, None], drawn.demonstration[rollout.prompt], task_lib.EOS)
      return rollout.replace(tokens=tokens, valid=tokens != task_lib.PAD)

    got = loop.evaluate(task, sample, None, jax.random.key(0), num_prompts=3, num_samples=4)
    assert {name: float(x) for name, x in got.items()} == {
        'greedy': 0.0, 'pass@1': .25, 'pass@4': 1.0}


def test_levels_and_columns(parts):
  task = parts[0]
  rollout = loop.grade(task, loop.begin(task, jax.random.key(0), P, G))
  assert rollout.columns.shape == (P * G, 2) and rollout.graded.all()
  assert set(np.asarray(rollout.extras['level'])) <= set(range(3, 9))
