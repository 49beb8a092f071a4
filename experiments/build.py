"""Config -> Run: every part resolved and every shape fixed, before any device work."""

import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from experiments import tables
from rlvr import advantages
from rlvr import losses
from rlvr import spec
from rlvr import types
from rlvr.host import compiles
from rlvr.host import load_weights
from rlvr.host import loop
from rlvr.host import rollouts
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.policy import heads
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode
from rlvr.train import cells
from rlvr.train import parallel
from rlvr.train import prepare
from rlvr.train import update

_READS_REF = ('kl_loss', 'kl_in_reward')
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
  check(c)
  recipe = resolve_recipe(c)
  optimizer = spec.resolve(tables.TABLES, c.optimizer, 'config.optimizer', 'optimizer')()
  env = spec.resolve(tables.TABLES, c.env, 'config.env', 'env')()
  model = Model(c)
  # A prompt that cannot fit is found now, not in the middle of a run.
  tasks = [t for part in (env.train, env.held_out) for t in _first(part, _CHECKED_PROMPTS)]
  rollouts.encode_prompts(model.tokenizer, tasks, c.rollout.prompt_buckets)

  policy = transformer.make_policy(
      model.config, compute_dtype=jnp.dtype(c.model.compute_dtype), remat=c.model.remat,
      head_chunk=c.model.head_chunk, truncation=_truncation(c))
  layout = make_layout(c)
  counter = compiles.Counter()
  step = counter.wrap(update.make_update(policy, recipe.terms, optimizer, layout))

  def init():
    key = jax.random.key(c.seed)
    params = model.params(jax.random.fold_in(key, 0))
    knobs = {f'coef_{name}': jnp.float32(c.losses[name].coef) for name in recipe.terms}
    # Copies: an anchor that is the params themselves could not be donated.
    anchors = {'ref': jax.tree.map(jnp.copy, params)} if recipe.score_ref else {}
    return types.TrainState(
        step=jnp.zeros((), jnp.int32), params=params, opt_state=optimizer.init(params),
        anchors=anchors, method={}, knobs=knobs, key=key)

  run = loop.Run(
      config=c, folder=folder, env=env, tokenizer=model.tokenizer,
      sample=Sampler(c, policy, model.tokenizer.stop_ids, counter),
      prepare=jax.jit(counter.wrap(prepare.make_prepare(recipe, policy, layout))),
      update=_parallel_update(c, step, init), init=_placed_init(c, init),
      compiles=counter, fingerprint=fingerprint(c))
  return run, model


def check(c: ml_collections.ConfigDict) -> None:
  """Numbers and combinations that cannot work. Raises: ValueError, one sentence each."""
  r = c.rollout
  for path, value, least in (
      ('num_steps', c.num_steps, 0), ('rollout.prompts', r.prompts, 1),
      ('rollout.responses', r.responses, 1), ('rollout.max_tokens', r.max_tokens, 1),
      ('rollout.slots', r.slots, 1), ('rollout.slots_per_prompt', r.slots_per_prompt, 1),
      ('rollout.max_rounds', r.max_rounds, 1), ('batch.epochs', c.batch.epochs, 1),
      ('batch.minibatches', c.batch.minibatches, 1),
      ('verify.num_workers', c.verify.num_workers, 1),
      ('model.head_chunk', c.model.head_chunk, 1), ('eval.prompts', c.eval.prompts, 0),
      ('eval.every', c.eval.every, 0), ('checkpoint.every', c.checkpoint.every, 0),
      ('log.rollouts_every', c.log.rollouts_every, 0), ('parallel.fsdp', c.parallel.fsdp, 1)):
    if value < least:
      raise ValueError(f'config.{path} is {value}; it must be at least {least}.')
  buckets = list(r.prompt_buckets)
  if not buckets or buckets != sorted(set(buckets)) or buckets[0] < 1:
    raise ValueError(
        f'config.rollout.prompt_buckets is {r.prompt_buckets}; it must be ascending widths.')
  if not r.temperature > 0:
    raise ValueError(
        f'config.rollout.temperature is {r.temperature}; training needs it above 0 (evaluation '
        'is greedy by itself).')
  if r.slots % r.slots_per_prompt:
    raise ValueError(
        f'config.rollout.slots is {r.slots}; it must be a multiple of slots_per_prompt '
        f'{r.slots_per_prompt}.')
  if c.batch.cell_rows < r.responses:
    raise ValueError(
        f'config.batch.cell_rows is {c.batch.cell_rows}; a cell must hold a whole group, '
        f'{r.responses} responses.')
  if r.responses < 2 and c.advantage.name in advantages.GROUP_BASELINES:
    raise ValueError(
        f'config.rollout.responses is {r.responses}, but the baseline of advantage '
        f'{c.advantage.name!r} is the other responses of the group; it needs at least 2.')
  if not c.losses:
    raise ValueError('config.losses is empty; a run needs at least one loss term.')
  if c.eval.prompts and r.responses > 1 and max(c.eval.pass_at, default=1) > r.responses - 1:
    raise ValueError(
        f'config.eval.pass_at is {c.eval.pass_at}; one of the {r.responses} responses is greedy, '
        f'so k is at most {r.responses - 1}.')
  for path, value, known in (
      ('score_old', c.score_old, ('auto', 'always')),
      ('parallel.kind', c.parallel.kind, ('pmap', 'mesh')),
      ('model.compute_dtype', c.model.compute_dtype, ('float32', 'bfloat16'))):
    if value not in known:
      raise ValueError(f'config.{path} is {value!r}; expected one of {", ".join(known)}.')
  num_devices = len(jax.devices())
  if r.prompts % num_devices:
    raise ValueError(
        f'config.rollout.prompts is {r.prompts}; the {num_devices} devices each take an equal '
        'share, so it must be a multiple.')
  if c.parallel.fsdp > 1 and (c.parallel.kind != 'mesh' or num_devices % c.parallel.fsdp):
    raise ValueError(
        f'config.parallel.fsdp is {c.parallel.fsdp}; it needs parallel.kind mesh and must divide '
        f'the {num_devices} devices.')


def resolve_recipe(c: ml_collections.ConfigDict) -> prepare.Recipe:
  """The method's parts, from the config alone (no model, no device)."""
  def part(name, path=None, cfg=None):
    path = path or name
    return spec.resolve(tables.TABLES, c[name] if cfg is None else cfg, f'config.{path}', name)

  terms = {}
  for name, cfg in c.losses.items():
    path = f'losses.{name}'
    default = {'aggregate': c.aggregate} | dict(cfg)
    terms[name] = prepare.Term(
        loss=part('loss', f'{path}.term', cfg.term), mask=part('mask', f'{path}.mask', cfg.mask),
        aggregate=part('aggregate', f'{path}.aggregate', default['aggregate']))
  names = {cfg.term.name for cfg in c.losses.values()} | {c.reward.name}
  several = c.batch.epochs * c.batch.minibatches > 1
  return prepare.Recipe(
      reward=part('reward'), advantage=part('advantage'), transforms=(part('transform'),),
      selection=part('selection'), correction=part('correction'), terms=terms,
      advantage_only=all(
          cfg.term.name in losses.ADVANTAGE_ONLY for cfg in c.losses.values()),
      score_old=several or c.correction.name != 'none' or c.score_old == 'always',
      score_ref=bool(names & set(_READS_REF)), score_first=c.score_first,
      minibatches=c.batch.minibatches)


def make_layout(c: ml_collections.ConfigDict) -> cells.Layout:
  """Cells that hold the batch even where groups do not divide them evenly."""
  num_devices, n = len(jax.devices()), c.batch.cell_rows
  per_cell = n // c.rollout.responses  # whole groups
  num_groups = c.rollout.prompts  # any minibatch may be as large as the batch on a device
  return cells.Layout(
      devices=num_devices, cells=-(-num_groups // (per_cell * num_devices)),
      rows=per_cell * c.rollout.responses, prompts=per_cell,
      spans=cells.spans(c.rollout.max_tokens))


class Sampler:
  """(params, prompts, key, version, greedy) -> (Rollout, Stats), once a device."""

  def __init__(self, c: ml_collections.ConfigDict, policy: types.Policy, stop_ids, counter):
    self._c = c.rollout
    self._num_devices = len(jax.devices())
    sample = counter.wrap(lambda params, rollout, key, version: decode.sample(
        params, rollout, key, {}, policy=policy, slots=c.rollout.slots, stop_ids=stop_ids,
        version=version, slots_per_prompt=c.rollout.slots_per_prompt, truncation=_truncation(c)))
    self._one = jax.jit(sample)
    self._each = parallel.on_devices(sample)

  def __call__(self, params, prompts, key, version, greedy):
    num_prompts, num_responses = prompts.id.shape[0], self._c.responses
    counts = jnp.full(num_prompts, num_responses)
    rollout, _ = decode.grow(decode.begin(
        prompts, num_prompts * num_responses, self._c.max_tokens,
        temperature=self._c.temperature), counts)
    if greedy:  # the first response of each prompt
      first = jnp.arange(rollout.where.shape[0]) % num_responses == 0
      rollout = rollout.replace(temperature=jnp.where(first, 0.0, rollout.temperature))
    if self._num_devices == 1:
      return self._one(params, rollout, key, version)
    split = parallel.split_rows(rollout, self._num_devices)
    keys = parallel.device_keys(key, self._num_devices)
    rollout, stats = self._each(params, split, keys, version)
    return parallel.join_rows(rollout), stats


def _truncation(c):
  return heads.Truncation(c.rollout.top_k, c.rollout.top_p, c.rollout.min_p)


def _mesh(c):
  return parallel.make_mesh(len(jax.devices()) // c.parallel.fsdp, c.parallel.fsdp)


def _parallel_update(c, step, init):
  if c.parallel.kind == 'mesh':
    return parallel.on_mesh(step, _mesh(c), jax.eval_shape(init))
  return parallel.on_pmap(step)


def _placed_init(c, init):
  if c.parallel.kind == 'mesh':
    shardings = parallel.state_sharding(jax.eval_shape(init), _mesh(c))
    return lambda: jax.device_put(init(), shardings)
  return init


def _first(tasks, most):
  return [tasks[i] for i in range(min(len(tasks), most))]


def fingerprint(c: ml_collections.ConfigDict) -> dict[str, Any]:
  """The fields that fix the state's tree and what its numbers mean."""
  names = ('seed', 'model', 'env', 'optimizer', 'losses')
  return {name: c[name].to_dict() if isinstance(c[name], ml_collections.ConfigDict) else c[name]
          for name in names}
