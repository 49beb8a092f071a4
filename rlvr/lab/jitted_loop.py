"""The jitted loop: sample, verify in JAX, prepare, update, as one function of the state.

The same stage functions as the host loop (rlvr/host/loop.py), called in the same
order with the same keys; only prompts come from the task and verdicts from
`task.verify`. One step is one pure function, so a run is a scan and several
seeds are a map.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import types
from rlvr.lab import task as task_lib
from rlvr.samplers import decode

Array = jax.Array

_SAMPLE, _PROMPTS = 0, 4  # splits of fold_in(state.key, step); 1 to 3 are the stages'


class Stages(NamedTuple):
  """A method's stages, as rlvr/host/loop.py has them, none of them jitted.

  Attributes:
    sample: (params, rollout, key, version) -> rollout, all rows finished.
    prepare: (rollout, state) -> (batches, rollout, metrics).
    update: (state, batch) -> (state, metrics).
    finish: (state, rollout, metrics) -> the state of the next step.
    epochs: passes over a batch.
  """

  sample: Callable[..., types.Rollout]
  prepare: Callable[..., Any]
  update: Callable[..., Any]
  finish: Callable[..., types.TrainState]
  epochs: int = 1


def make_step(
    task: task_lib.Task, stages: Stages, *, num_prompts: int, num_responses: int
) -> Callable[[types.TrainState], tuple[types.TrainState, dict[str, Array]]]:
  """step(state) -> (state, metrics f32[] by name): one whole training step.

  Prompts and noise derive from state.key and state.step alone: methods that are
  run from equal keys see the same prompts, whatever they do with them.
  """

  def step(state):
    key = jax.random.fold_in(state.key, state.step)
    rollout = begin(task, jax.random.fold_in(key, _PROMPTS), num_prompts, num_responses)
    # The host loop's key of its first round.
    sample_key = jax.random.fold_in(jax.random.fold_in(key, _SAMPLE), 0)
    rollout = grade(task, stages.sample(state.params, rollout, sample_key, state.step))
    batches, rollout, prepared = stages.prepare(rollout, state)
    measured = []
    for _ in range(stages.epochs):
      for batch in batches:
        state, metrics = stages.update(state, batch)
        measured.append(metrics)
    state = stages.finish(state, rollout, measured[-1])
    mean = jax.tree.map(lambda *xs: sum(xs) / len(xs), *measured)
    return state, prepared | mean

  return step


def train(
    step: Callable[[types.TrainState], Any], state: types.TrainState, num_steps: int
) -> tuple[types.TrainState, dict[str, Array]]:
  """num_steps steps in one scan: the last state, and every metric as f32[num_steps]."""
  return jax.lax.scan(lambda state, _: step(state), state, None, length=num_steps)


def over_seeds(run: Callable[[Any], Any], seeds: Any) -> Any:
  """run(seed) for each leading entry of `seeds`: one after the other on CPU, at once elsewhere.

  On two cores a map beat vmap by 4 to 27 %; the two compute the same.
  """
  return jax.lax.platform_dependent(
      seeds, cpu=lambda x: jax.lax.map(run, x), default=jax.vmap(run))


def begin(
    task: task_lib.Task, key: Array, num_prompts: int, num_responses: int,
    temperature: Array | float = 1.0,
) -> types.Rollout:
  """Fresh prompts with `num_responses` empty rows each, their level in extras. Consumes key."""
  drawn = task.draw(key, num_prompts)
  prompts = types.Prompts(
      tokens=drawn.prompts, length=jnp.full(num_prompts, task.prompt_length),
      id=jnp.arange(num_prompts))
  num_rows = num_prompts * num_responses
  rollout, _ = decode.grow(
      decode.begin(prompts, num_rows, task.max_tokens, temperature=temperature),
      jnp.full(num_prompts, num_responses))
  return rollout.replace(extras={'level': drawn.level[rollout.prompt]})


def grade(task: task_lib.Task, rollout: types.Rollout) -> types.Rollout:
  """With columns (correct, partial); every row that holds a response is graded."""
  correct, partial = task.verify(
      rollout.prompts.tokens[rollout.prompt], rollout.tokens, rollout.valid)
  where = rollout.where
  columns = jnp.where(where[:, None], jnp.stack([correct, partial], axis=1), 0.0)
  return rollout.replace(columns=columns, graded=where,
                         column_where=jnp.broadcast_to(where[:, None], columns.shape))


def evaluate(
    task: task_lib.Task, sample: Callable[..., types.Rollout], params: Any, key: Array, *,
    num_prompts: int = 128, num_samples: int = 16,
) -> dict[str, Array]:
  """Accuracy on fixed prompts: greedy, the mean of the samples, and pass@k, unbiased.

  Args:
    task: what is asked.
    sample: as in Stages.
    params: the policy's.
    key: fixes prompts and noise; the same key is the same held-out set.
    num_prompts: prompts.
    num_samples: samples a prompt, n.

  Returns:
    f32[] by name: greedy, pass@1, and pass@k for k = 4, 16, ... up to n. With c right
    of n, pass@k = 1 - C(n - c, k) / C(n, k).
  """
  prompt_key, sample_key = jax.random.split(key)
  rollout = begin(task, prompt_key, num_prompts, num_samples + 1)
  first = jnp.arange(rollout.where.shape[0]) % (num_samples + 1) == 0
  rollout = rollout.replace(temperature=jnp.where(first, 0.0, rollout.temperature))
  rollout = grade(task, sample(params, rollout, sample_key, 0))
  correct = rollout.columns[:, 0].reshape(num_prompts, num_samples + 1)
  wrong = num_samples - jnp.sum(correct[:, 1:], axis=1)
  summary = {'greedy': jnp.mean(correct[:, 0]), 'pass@1': jnp.mean(correct[:, 1:])}
  k = 4
  while k <= num_samples:
    places = jnp.arange(k)[None]
    miss = jnp.prod(jnp.maximum(wrong[:, None] - places, 0) / (num_samples - places), axis=1)
    summary[f'pass@{k}'] = jnp.mean(1 - miss)
    k *= 4
  return summary
