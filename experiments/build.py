"""Config -> Run: every part resolved and every shape fixed, before any device work."""

import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from experiments import checks
from experiments import placing
from experiments import questions
from experiments import sampling
from experiments import steps
from experiments import stores
from experiments import tables
from experiments import warm_start
from rlvr import corrections
from rlvr import losses
from rlvr import memory
from rlvr import old_policies
from rlvr import spec
from rlvr import types
from rlvr.host import compiles
from rlvr.host import load_weights
from rlvr.host import loop
from rlvr.host import rollouts
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.host import turns
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.replay import compose
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import slow_fast

_READS_REF = ('kl_loss', 'kl_in_reward', 'kl_convex', 'reinforce_pp')
_READS_LAST = ('kl_convex',)
_CHECKED_PROMPTS = 2000  # prompts whose length is checked before the run starts


class Model:
  """The policy to start from: shape, tokenizer, and how its params are made."""

  def __init__(self, c: ml_collections.ConfigDict):
    if c.model.path:
      loaded = load_weights.load(c.model.path)
      self.config, self.tokenizer = loaded.config, loaded.tokenizer
      self.params = lambda key: jax.tree.map(jnp.array, loaded.params)
    else:
      self.config, self.tokenizer = tiny.config(size=c.model.tiny), tokenizer_lib.ByteTokenizer()
      self.params = functools.partial(transformer.init, config=self.config)


def build(c: ml_collections.ConfigDict, folder: pathlib.Path) -> tuple[loop.Run, Model]:
  """Resolves every part of the config.

  Raises:
    ValueError: one sentence on an unknown name or option, a number out of
      range, parts that do not fit each other, or a model or data file.
  """
  checks.check(c)
  recipe = resolve_recipe(c)
  optimizer = resolve_optimizer(c)
  env = spec.resolve(tables.TABLES, c.env, 'config.env', 'env')()
  model = Model(c)
  # A prompt that cannot fit is found now, not in the middle of a run.
  tasks = [t for part in (env.train, env.held_out) for t in questions.first(part, _CHECKED_PROMPTS)]
  rollouts.encode_prompts(model.tokenizer, tasks, c.rollout.prompt_buckets)

  policy = make_policy(c, model)
  layout = make_layout(c)
  counter = compiles.Counter()
  learner = steps.make_learner(c, recipe, policy, optimizer, layout)
  policy, step = learner.policy, counter.wrap(learner.update.step)

  random_or_loaded = lambda: model.params(jax.random.fold_in(jax.random.key(c.seed), 0))

  def state_of(params, memories):
    knobs = {f'coef_{name}': jnp.float32(c.losses[name].coef) for name in recipe.terms}
    knobs |= {'epochs': jnp.float32(c.batch.epochs),
              compose.SHARE: jnp.float32(c.batch.replay_share)}
    # Copies: an anchor that is the params themselves could not be donated.
    anchors = {'ref': jax.tree.map(jnp.copy, params)} if recipe.score_ref else {}
    state = types.TrainState(
        step=jnp.zeros((), jnp.int32), params=learner.grow(params),
        opt_state=optimizer.init(params), anchors=anchors, method={}, knobs=knobs,
        key=jax.random.key(c.seed))
    state = learner.update.init(state)
    for part in memories:
      state = part.init(state, len(env.train))
    return state

  abstract = jax.eval_shape(lambda: state_of(random_or_loaded(), recipe.memories))
  names = questions.verdict_names(c, env)
  memories = (*stores.memories(c, recipe, policy, layout, abstract, *names), *recipe.memories)
  abstract = jax.eval_shape(lambda: state_of(random_or_loaded(), memories))
  check_parts(c, recipe, policy, layout, abstract, *names)

  def init():
    params = random_or_loaded()
    if c.model.warm_start_steps:
      params = warm_start.warm_start(c, params, policy, model.tokenizer, env)
    return state_of(params, memories)

  run = loop.Run(
      config=c, folder=folder, env=env, tokenizer=model.tokenizer,
      sample=make_sampler(c, policy, model, env, counter),
      prepare=placing.prepare(c, counter.wrap(prepare.make_prepare(recipe, policy, layout))),
      update=placing.update(c, step, abstract),
      finish=jax.jit(memory.make_finish(memories), donate_argnums=0,
                     out_shardings=placing.state_place(c, abstract)),
      num_fresh=stores.num_fresh(c, recipe), allocate=sampling.allocator(
          spec.resolve(tables.TABLES, c.allocator, 'config.allocator', 'allocator'),
          recipe.memories),
      init=placing.init(c, init, abstract), abstract=abstract, compiles=counter,
      fingerprint=fingerprint(c), columns=names[0], offsets=names[1])
  return run, model


def make_policy(c: ml_collections.ConfigDict, model: Model) -> types.Policy:
  """The policy's functions as the config wants them."""
  return transformer.make_policy(
      model.config, compute_dtype=jnp.dtype(c.model.compute_dtype), remat=c.model.remat,
      head_chunk=c.model.head_chunk, truncation=sampling.truncation(c))


def make_sampler(c: ml_collections.ConfigDict, policy, model: Model, env, counter):
  """The run's sampler, of several turns where the config says so."""
  sampler = sampling.Sampler(c, policy, model.tokenizer.stop_ids, counter)
  if c.rollout.max_turns == 1:
    return sampler
  if env.respond is None:
    raise ValueError(
        f'config.rollout.max_turns is {c.rollout.max_turns}, but config.env {c.env.name!r} '
        'answers no turns; it needs one that does, such as look_up_tiny.')
  return turns.Conversation(sampler, env, model.tokenizer, c.rollout.max_turns)


def resolve_optimizer(c: ml_collections.ConfigDict):
  """The optax transformation. Raises: ValueError on its options."""
  return spec.resolve(tables.TABLES, c.optimizer, 'config.optimizer', 'optimizer')()


def check_parts(c, recipe, policy, layout, state, columns=(), offsets=()) -> None:
  """Traces the parts on shapes: an option out of range is found before anything is written."""
  rollout = sampling.abstract_rollout(c, c.rollout.prompt_buckets[0], columns, offsets)
  batch = jax.eval_shape(prepare.make_prepare(recipe, policy, layout), rollout, state)[0][0]
  cell = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype),
                      batch.replace(used=None))
  out = jax.eval_shape(policy.score, state.params, cell, state.knobs)
  for name, term in recipe.terms.items():
    own = cell.replace(weights={name: cell.weights[name]})
    jax.eval_shape(term.loss, out, own, state.knobs)


def update_memory(run: loop.Run, c: ml_collections.ConfigDict, width: int) -> int:
  """Bytes of temporaries of the compiled update at one prompt width."""
  rollout = sampling.abstract_rollout(c, width, run.columns, run.offsets)
  batch = jax.eval_shape(run.prepare, rollout, run.abstract)[0][0]
  return run.update.lower(run.abstract, batch).compile().memory_analysis().temp_size_in_bytes


def resolve_recipe(c: ml_collections.ConfigDict) -> prepare.Recipe:
  """The method's parts, from the config alone (no model, no device)."""
  def part(name, path=None, cfg=None):
    path = path or name
    return spec.resolve(tables.TABLES, c[name] if cfg is None else cfg, f'config.{path}', name)

  terms = {}
  for name, cfg in c.losses.items():
    path = f'losses.{name}'
    own = f'{path}.aggregate' if 'aggregate' in cfg else 'aggregate'
    terms[name] = prepare.Term(
        loss=part('loss', f'{path}.term', cfg.term), mask=part('mask', f'{path}.mask', cfg.mask),
        aggregate=part('aggregate', own, cfg.aggregate if 'aggregate' in cfg else c.aggregate))
  names = tables.part_names(c.losses) | tables.part_names(c.reward) | tables.part_names(
      c.advantage)
  several = c.batch.epochs * c.batch.minibatches > 1
  return prepare.Recipe(
      reward=part('reward'), advantage=part('advantage'), transforms=(part('transform'),),
      selection=part('selection'), correction=part('correction'), terms=terms,
      advantage_only=all(
          cfg.term.name in losses.ADVANTAGE_ONLY for cfg in c.losses.values()),
      score_old=(several or c.correction.name != 'none' or c.score_old != 'auto'
                 or c.stepping.name in slow_fast.REUSES_BATCH),
      old_policy=old_policies.OLD_POLICIES[c.score_old], readings=_readings(part('correction')),
      score_ref=bool(names & set(_READS_REF)), score_last=bool(names & set(_READS_LAST)),
      score_first=c.score_first, minibatches=c.batch.minibatches,
      memories=tuple(part('memory', f'memory.{name}', c.memory[name])() for name in c.memory),
      replay=part('replay')(),
      compensation=stores.compensation(c, part('replay', 'compensation', c.compensation)()))


def _readings(correction):
  """What a correction logs, with its options; None for most."""
  function = corrections.READINGS.get(correction.func.__name__)
  return function and functools.partial(function, **correction.keywords)


def make_layout(c: ml_collections.ConfigDict) -> cells.Layout:
  """Cells that hold the batch even where groups do not divide them evenly."""
  num_devices, n = len(jax.devices()), c.batch.cell_rows
  per_cell = n // c.rollout.responses  # whole groups
  num_groups = c.rollout.prompts  # any minibatch may be as large as the batch on a device
  rows = per_cell * c.rollout.responses
  # Rows of a compensation stand alone, each with its prompt; one program serves both batches.
  alone = c.compensation.name != 'no_store'
  num_cells = -(-num_groups // per_cell)
  if c.rollout.extra_rows:
    # A cell is closed by its prompts, or by its rows when less than a largest group is free.
    num_cells += -(-sampling.most_rows(c) // (rows - c.allocator.most + 1))
  return cells.Layout(
      devices=num_devices, cells=-(-num_cells // num_devices),
      rows=rows, prompts=rows if alone else per_cell,
      spans=cells.spans(c.rollout.max_tokens))


def fingerprint(c: ml_collections.ConfigDict) -> dict[str, Any]:
  """The fields that fix the state's tree and what its numbers mean."""
  names = ('seed', 'model', 'env', 'optimizer', 'losses', 'memory', 'replay', 'compensation',
           'critic', 'stepping')
  return {name: c[name].to_dict() if isinstance(c[name], ml_collections.ConfigDict) else c[name]
          for name in names}
