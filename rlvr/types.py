"""The types that flow through a run; stages.py has the signatures of its stages.

Shapes: P prompts, B rollout rows, L prompt positions, T response positions, S
reward columns. A `Batch` is laid out in cells, D devices x M microbatches, each
of n rows and p prompts. A rollout is a flat batch of rows; a group is an id on
the row; only rows.py touches the row axis.
"""

import dataclasses
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import flax
import jax
import jax.numpy as jnp

Array = jax.Array

# Rollout.stop: how a row ended. RUNNING rows are continued by the sampler.
RUNNING, STOP_TOKEN, BUDGET, ABORT = 0, 1, 2, 3
# Rollout.source: where a row came from.
FRESH, RESUMED, BRANCH, REPLAYED, EXTERNAL = 0, 1, 2, 3, 4


@flax.struct.dataclass(kw_only=True)
class Prompts:
  """Right-padded prompts; each is computed once for all its responses.

  Attributes:
    tokens: i32[P, L]; positions at or beyond `length` are never attended to.
    length: i32[P], at least 1 for a prompt that is used.
    id: i32[P], the stable dataset index, key of all per-prompt state.
  """

  tokens: Array
  length: Array
  id: Array


@flax.struct.dataclass(kw_only=True)
class Rollout:
  """What happened: a flat batch of responses.

  Every leaf outside `prompts` and `teacher_prompts` has the same leading row
  axis. A field that is None is not known yet; each pattern of None is one trace.

  Attributes:
    prompts: the prompts that the rows continue.
    prompt: i32[B], the row of `prompts` that a response attends to.
    group: i32[B], the statistics group, dense in 0 <= group < B.
    where: bool[B], the row holds a response.
    tokens: i32[B, T], right-padded responses, the stop token included.
    valid: bool[B, T], a real token, the environment's too; a prefix of the row.
    mask: f32[B, T], 1 where the policy wrote the token and it may be trained.
    rollout_logp: f32[B, T], log-probability of what was drawn under what drew
      it, after temperature and truncation; 0 off `valid`.
    version: i32[B, T], the policy step that wrote each token.
    source: i32[B], FRESH, RESUMED, BRANCH, REPLAYED or EXTERNAL.
    stop: i32[B], RUNNING, STOP_TOKEN, BUDGET or ABORT.
    temperature: f32[B], the temperature the row was sampled at; 0 is greedy.
    reward: f32[B], the shaped outcome.
    columns: f32[B, S], separate rewards; column 0 is the raw outcome.
    column_where: bool[B, S], which of them apply to the row.
    graded: bool[B], the verifier gave a verdict; others leave all statistics.
    old_logp, ref_logp, gen_logp, entropy, value: f32[B, T], scored later.
    advantages: f32[B, T], kept when a row is stored for replay.
    turn: i32[B, T]; trajectory, parent: i32[B]: several turns or branches.
    teacher_prompts: what a privileged teacher sees before the same response.
    extras: arrays of one method alone, each with a leading row axis.
  """

  prompts: Prompts
  prompt: Array
  group: Array
  where: Array
  tokens: Array
  valid: Array
  mask: Array
  rollout_logp: Array
  version: Array
  source: Array
  stop: Array
  temperature: Array
  reward: Array | None = None
  columns: Array | None = None
  column_where: Array | None = None
  graded: Array | None = None
  old_logp: Array | None = None
  ref_logp: Array | None = None
  gen_logp: Array | None = None
  entropy: Array | None = None
  value: Array | None = None
  advantages: Array | None = None
  turn: Array | None = None
  trajectory: Array | None = None
  parent: Array | None = None
  teacher_prompts: Prompts | None = None
  extras: dict[str, Array] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    rows = self.where
    if not hasattr(rows, 'shape'):
      return  # a tree of something other than arrays (specs, axes)
    for name, leaf in row_leaves(self).items():
      for array in jax.tree.leaves(leaf):
        if hasattr(array, 'shape') and array.shape[:1] != rows.shape[:1]:
          raise ValueError(
              f'Rollout.{name} has shape {array.shape}; its leading axis must be the '
              f'{rows.shape[0]} rows of `where`.')


@flax.struct.dataclass(kw_only=True)
class Batch:
  """What is trained: rows laid out in cells, nothing gathered across devices.

  Leaves are [D, M, n, ...] for rows and [D, M, p, ...] for prompts; inside
  `update` a loss term sees one cell, leaves [n, ...] and [p, ...].

  Attributes:
    prompts: the prompts of the cell.
    prompt: i32[n], index into the cell's own prompts.
    group: i32[n], dense inside the cell.
    where: bool[n], the place holds a row.
    tokens, valid, mask: [n, T], as in `Rollout`.
    temperature: f32[n], at least a small positive number.
    rollout_logp: f32[n, T]; old_logp, ref_logp, gen_logp, value: f32[n, T] or None.
    advantages, correction: f32[n, T]; the second weighs the sampler's mismatch, or is 1.
    reward: f32[n]; version: i32[n, T].
    weights: f32[n, T] per loss term (a term sees its own); all the averaging there is.
    query_ids: i32[n, T, K] or None, ids whose log-probs a term asks for.
    extras: as in `Rollout`.
    used: i32[D] (not laid out in cells), the number of cells that hold rows.
    teacher_prompts: as in `Rollout`.
  """

  prompts: Prompts
  prompt: Array
  group: Array
  where: Array
  tokens: Array
  valid: Array
  mask: Array
  temperature: Array
  rollout_logp: Array
  advantages: Array
  reward: Array
  version: Array
  weights: dict[str, Array]
  correction: Array | None = None
  old_logp: Array | None = None
  ref_logp: Array | None = None
  gen_logp: Array | None = None
  value: Array | None = None
  query_ids: Array | None = None
  teacher_prompts: Prompts | None = None
  extras: dict[str, Array] = dataclasses.field(default_factory=dict)
  used: Array | None = None


@flax.struct.dataclass(kw_only=True)
class PolicyOutput:
  """What scoring offers; what nobody uses vanishes under jit.

  Attributes:
    logp: f32[n, T], log-probability of each token at the row's temperature.
    entropy: f32[n, T], in nats, at the same temperature.
    query_logp: f32[n, T, K] at `query_ids`, or None.
    top_logp, top_ids: f32/i32[n, T, K], the K most likely tokens, or None.
    divergence, value: f32[n, T], to a named anchor; of a value head; or None.
    hidden: [n, T, d], what the output head reads to predict each token, after the last norm.
  """

  logp: Array
  entropy: Array
  query_logp: Array | None = None
  top_logp: Array | None = None
  top_ids: Array | None = None
  divergence: Array | None = None
  value: Array | None = None
  hidden: Array | None = None


@flax.struct.dataclass(kw_only=True)
class TrainState:
  """One pytree, one checkpoint; no two leaves share a buffer.

  Attributes:
    step: i32[], finished training steps.
    params: the policy, f32 master weights.
    opt_state: the optimiser's state.
    anchors: named params (ref, ewma, snapshots).
    method: states of allocators, stores and controllers by name.
    knobs: f32[] by name, traced: moving one never recompiles.
    key: the run's typed key; every use is fold_in(key, step) and named splits.
  """

  step: Array
  params: Any
  opt_state: Any
  anchors: dict[str, Any]
  method: dict[str, Any]
  knobs: dict[str, Array]
  key: Array


class Policy(NamedTuple):
  """A policy as pure functions over a params pytree (see rlvr/policy).

  Attributes:
    init: (key) -> params, f32.
    cast: (params) -> params in compute dtype; idempotent, for callers that loop.
    score: (params, rows, knobs, *, anchors=None) -> PolicyOutput; `rows` is a
      Rollout or one cell of a Batch.
    prefill: (params, prompts) -> prefix, a pytree with `.logits` f32[P, V],
      the logits of every prompt's first response token.
    init_cache: (prefix, num_slots, max_tokens) -> cache.
    decode_step: (params, prefix, cache, block_prompt i32[S/n], tokens i32[S],
      t i32[S]) -> (logits f32[S, V], cache): writes token t of each slot and
      predicts t + 1; slots of one block attend to the same prompt.
    take_slots: (cache, slots i32[K]) -> the cache of those slots, or None: then
      the sampler never narrows.
  """

  init: Callable[..., Any]
  cast: Callable[[Any], Any]
  score: Callable[..., PolicyOutput]
  prefill: Callable[..., Any]
  init_cache: Callable[..., Any]
  decode_step: Callable[..., tuple[Array, Any]]
  take_slots: Callable[[Any, Array], Any] | None = None


def row_leaves(rollout: Rollout) -> dict[str, Any]:
  """The fields with a leading row axis, by name."""
  return {
      field.name: getattr(rollout, field.name)
      for field in dataclasses.fields(rollout)
      if field.name not in ('prompts', 'teacher_prompts')
  }


def lengths(rollout: Rollout | Batch) -> Array:
  """i32[B]: real tokens per row, the environment's included."""
  return jnp.sum(rollout.valid, axis=-1, dtype=jnp.int32)


def graded(rollout: Rollout) -> Array:
  """bool[B]: rows that enter statistics: they hold a response with a verdict."""
  return rollout.where if rollout.graded is None else rollout.where & rollout.graded
