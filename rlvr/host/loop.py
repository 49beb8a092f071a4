"""The loop: sample, verify, prepare, update, and what a run leaves behind.

Everything random derives from (seed, step), and the data cursor counts prompts,
so a run that is killed at any moment and started again equals one that never
stopped, bit for bit.
"""

import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import numpy as np

from rlvr import types
from rlvr.envs import env as env_lib
from rlvr.host import checkpoint
from rlvr.host import compiles
from rlvr.host import data
from rlvr.host import dynamic_sampling
from rlvr.host import evaluate
from rlvr.host import extra_rounds
from rlvr.host import interrupt
from rlvr.host import metrics as metrics_lib
from rlvr.host import progress as progress_lib
from rlvr.host import rollouts
from rlvr.host import run_dir
from rlvr.host import verify_pool


class Run(NamedTuple):
  """A resolved run (experiments/build.py makes it from a config).

  Attributes:
    config: the whole config, for its numbers.
    folder: the run folder.
    env, tokenizer: what is asked, and how text becomes tokens.
    sample: (params, prompts, key, version, greedy bool, counts i32[P] or None for
      all alike) -> (Rollout, Stats).
    prepare: (rollout, state) -> (batches, rollout, metrics).
    update: (state, batch) -> (state, metrics); donates the state.
    finish: (state, rollout, metrics) -> the state of the next step; donates the state.
    num_fresh: (state) -> prompts to sample in its step, the others being replayed.
    allocate: (state, rollout, left) -> i32[P] further rows to buy, at most `left`.
    init: () -> TrainState of step 0.
    abstract: its shapes.
    compiles: counts the programs compiled so far.
    fingerprint: the config fields that a checkpoint must share.
    columns, offsets: names of the verifier's parts of a reward and of the places it
      names in a text, in order; `train` asks.
  """

  config: Any
  folder: pathlib.Path
  env: env_lib.Env
  tokenizer: Any
  sample: Callable[..., Any]
  prepare: Callable[..., Any]
  update: Callable[..., Any]
  finish: Callable[..., Any]
  num_fresh: Callable[[types.TrainState], Any]
  allocate: Callable[..., Any]
  init: Callable[[], types.TrainState]
  abstract: types.TrainState
  compiles: compiles.Counter
  fingerprint: dict[str, Any]
  columns: tuple[str, ...] = ()
  offsets: tuple[str, ...] = ()


def train(run: Run, *, resumed: bool) -> types.TrainState:
  """Runs to config.num_steps from the latest checkpoint, or from the start."""
  c = run.config
  state = run.init()
  stream = data.PromptStream(len(run.env.train), c.rollout.prompts, seed=c.seed)
  checkpoints = checkpoint.Checkpointer(
      run.folder / run_dir.CHECKPOINTS, keep=c.checkpoint.keep, fingerprint=run.fingerprint)
  restored = resumed and checkpoints.latest_step() is not None
  if restored:
    state, cursor = checkpoints.restore(state)
    stream.set_state(cursor)
  start = int(state.step)
  run_dir.drop_rollouts_after(run.folder, start)
  progress = progress_lib.Progress(c.num_steps)
  pool = verify_pool.VerifyPool(
      run.env.verifier, num_workers=c.verify.num_workers,
      deadline_seconds=c.verify.deadline_seconds, warm_task=run.env.train[0])
  with (interrupt.Interrupt() as stop, pool,
        metrics_lib.Writer(run.folder, last_step=start if restored else -1,
                           tensorboard=c.log.tensorboard) as writer):
    run = run._replace(columns=rollouts.column_names(pool, run.env.train[0]),
                       offsets=rollouts.offset_names(pool, run.env.train[0]))
    log = Log(run, writer, progress)
    if not restored:
      log.evaluation(0, evaluation(run, state, pool))
    for step in range(start + 1, c.num_steps + 1):
      if stop.requested and step == start + 1:
        break  # nothing has happened that is worth the wait for a first step
      sampled = sample_phase(run, state, pool, stream)
      began = time.monotonic()
      batches, rollout, prepared = run.prepare(sampled.rollout, state)
      measured = []
      for _ in range(int(state.knobs['epochs'])):
        for batch in batches:
          state, metrics = run.update(state, batch)
          measured.append(metrics)
      state = run.finish(state, rollout, measured[-1])
      if step == start + 1:
        log.peak_temp_bytes = temp_bytes(run.update, state, batches[0])
      log.step(step, sampled, rollout, prepared, measured, began)
      if step == c.num_steps or (c.eval.every and step % c.eval.every == 0):
        log.evaluation(step, evaluation(run, state, pool))
      # After everything that is logged about the step: a kill in between repeats it.
      last = stop.requested or step == c.num_steps
      if last or (c.checkpoint.every and step % c.checkpoint.every == 0):
        checkpoints.save(step, state, stream.get_state())
      if stop.requested:
        break
  progress.close()
  checkpoints.close()
  return state


def sample_phase(run, state, pool, stream) -> rollouts.Sampled:
  """One batch of graded rollouts, in as many rounds as it takes."""
  c = run.config.rollout
  key = jax.random.fold_in(jax.random.fold_in(state.key, state.step), 0)
  num_fresh = int(run.num_fresh(state))

  def one_round(tasks, number, counts=None):
    if counts is None:
      counts = np.where(np.arange(c.prompts) < len(tasks), c.responses, 0)
    tasks = [*tasks, *tasks[:1] * (c.prompts - len(tasks))]  # shapes stay; these get no rows
    sample = functools.partial(
        _sample, run, state, jax.random.fold_in(key, number), False, counts=counts)
    return rollouts.sample_and_grade(
        tasks, sample=sample, tokenizer=run.tokenizer, pool=pool, buckets=c.prompt_buckets,
        columns=run.columns, offsets=run.offsets)

  draw = lambda num: [run.env.train[int(i)] for i in stream.take(num)]
  if not c.extra_rows:
    return dynamic_sampling.rounds(draw, one_round, num_prompts=num_fresh, max_rounds=c.max_rounds)
  tasks = draw(num_fresh)
  return extra_rounds.extra_rounds(
      one_round(tasks, 0), lambda counts, number: one_round(tasks, number, counts),
      functools.partial(run.allocate, state), num_extra=c.extra_rows)


def evaluation(run, state, pool) -> dict[str, float]:
  """Greedy accuracy, avg@k and pass@k on held-out prompts, with intervals.

  Row 0 of each prompt is greedy and the others are samples, so one compiled
  program of the training shapes serves both. The same prompts and noise each time.
  """
  c = run.config
  num_prompts = min(c.eval.prompts, len(run.env.held_out))
  if not num_prompts:
    return {}
  key = jax.random.fold_in(state.key, 2**31 - 1)
  correct, graded = [], []
  for first in range(0, num_prompts, c.rollout.prompts):
    # The last batch is filled up with prompts that are then left out.
    ids = [(first + i) % num_prompts for i in range(c.rollout.prompts)]
    sample = functools.partial(_sample, run, state, jax.random.fold_in(key, first), True)
    sampled = rollouts.sample_and_grade(
        [run.env.held_out[i] for i in ids], sample=sample, tokenizer=run.tokenizer, pool=pool,
        buckets=c.rollout.prompt_buckets, columns=run.columns, offsets=run.offsets)
    keep = min(c.rollout.prompts, num_prompts - first)
    shape = (c.rollout.prompts, c.rollout.responses)
    graded.append(np.asarray(sampled.rollout.graded).reshape(shape)[:keep])
    outcome = np.asarray(sampled.rollout.columns)[:, 0].reshape(shape)[:keep]
    correct.append(outcome >= c.eval.correct_at)
  correct, graded = np.concatenate(correct), np.concatenate(graded)
  if not graded.any():
    return {'eval/ungraded': 1.0}
  several = c.rollout.responses > 1
  summary = evaluate.summarise(
      correct[:, 1:] if several else None, correct[:, 0], c.eval.pass_at if several else (),
      where=graded[:, 1:] if several else None, greedy_where=graded[:, 0])
  return {f'eval/{name}': value for name, value in summary.items()}


def _sample(run, state, key, greedy, prompts, counts=None):
  return run.sample(state.params, prompts, key, state.step, greedy, counts)


class Log:
  """Metrics, rollouts as text, the progress line, the first example."""

  def __init__(self, run: Run, writer: metrics_lib.Writer, progress: progress_lib.Progress):
    self._run = run
    self._writer = writer
    self._progress = progress
    self._shown = False
    self.peak_temp_bytes = 0

  def step(self, step, sampled, rollout, prepared, measured, began) -> None:
    """Writes a step; waits for the device, so that the seconds are those of the step."""
    prepared, measured, advantages, reward = jax.device_get(
        (prepared, measured, rollout.advantages[:, 0], rollout.reward))
    learn = time.monotonic() - began
    seconds = learn + sampled.metrics['seconds/sample'] + sampled.metrics['seconds/verify']
    metrics = {name: float(value) for name, value in prepared.items()}
    metrics |= rollouts.split_metrics(sampled, self._run.columns, reward)
    metrics |= sampled.metrics | mean_of_updates(measured) | {
        'seconds/learn': learn, 'seconds_per_step': seconds,
        'tokens_per_second': sampled.metrics['sampled_tokens'] / seconds,
        'compiles': float(self._run.compiles.count),
        'peak_temp_bytes': float(self.peak_temp_bytes)}
    rows = rollouts.text_rows(sampled, self._run.tokenizer, advantages)
    every = self._run.config.log.rollouts_every
    if every and (step - 1) % every == 0:
      run_dir.write_rollouts(self._run.folder, step, rows)
    if not self._shown and rows:
      first = rows[0]
      self._progress.note(progress_lib.first_example(
          first['prompt'], first['completion'], first['answer'] or None, first['reward'],
          gold=first['gold'], status=first['status']))
      self._shown = True
    self._writer.write(step, metrics)
    self._progress.update(step, metrics)

  def evaluation(self, step, summary) -> None:
    """Writes and shows an evaluation, after the step it belongs to."""
    if summary:
      self._writer.write(step, summary)
      self._progress.note(f'held out at step {step}: ' + '  '.join(
          f'{name.removeprefix("eval/")} {value:.3f}' for name, value in summary.items()
          if not name.endswith(('_low', '_high'))))


def mean_of_updates(measured) -> dict[str, float]:
  """The mean of each metric over the updates of a step that had rows to train on.

  A step in which none had (all groups dead) has no loss, entropy or ratio: only
  `skipped` and `trained_rows` are left.
  """
  counted = [m for m in measured if m['trained_rows'] > 0]
  names = measured[0] if counted else ('skipped', 'trained_rows')
  return {name: float(np.mean([m[name] for m in counted or measured])) for name in names}


def temp_bytes(update, state, batch) -> int:
  """Bytes of temporaries of the compiled update (from the compilation cache)."""
  shapes = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), (state, batch))
  return update.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
