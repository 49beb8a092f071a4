"""From what happened to what is trained: Rollout -> Batch, once a batch.

In this order: rewards, advantage, transforms, selection, stored rows join,
weights, pack into cells, score the old and reference policies, correction.
Weights see all B rows, so no divisor depends on packing. Afterwards update only
adds.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import memory as memory_lib
from rlvr import old_policies
from rlvr import rows as rows_lib
from rlvr import stages
from rlvr import types
from rlvr.replay import compose
from rlvr.replay import stores
from rlvr.samplers import draws
from rlvr.train import cells as cells_lib
from rlvr.train import readings
from rlvr.train import scoring

Array = jax.Array


class Term(NamedTuple):
  """One loss term: what it computes, on which tokens, averaged how."""

  loss: stages.Loss
  mask: Callable[[types.Rollout], Array]
  aggregate: stages.Aggregate


class Recipe(NamedTuple):
  """The parts of a method, resolved.

  Attributes:
    reward, advantage, selection, correction: one function each.
    transforms: applied to the advantages in order.
    terms: loss terms by name; the coefficient of each is knobs['coef_<name>'].
    advantage_only: every term's gradient is 0 where the advantage is 0, so such
      rows are not computed.
    score_old: score the behaviour policy with the trainer; else the first
      update's own frozen log-probs stand in (one update a batch, no correction).
    old_policy: whose weights do that.
    readings: what the correction logs, with its arguments; None for nothing.
    score_ref: score anchors['ref'].
    score_last: score anchors['prev'] into extras['prev_logp'], after packing.
    score_first: score all rows before the rewards, for parts that read scores.
    minibatches: optimiser steps that a batch is split into.
    memories: what the method remembers between steps, read before anything else.
    replay: a store whose groups are trained beside the fresh ones.
    compensation: trains, as one more batch, rows that the selection left out.
  """

  reward: stages.Reward
  advantage: stages.Advantage
  transforms: tuple[stages.Transform, ...]
  selection: stages.Selection
  correction: stages.Correction
  terms: dict[str, Term]
  advantage_only: bool
  score_old: bool
  score_ref: bool
  score_first: bool
  minibatches: int
  memories: tuple[memory_lib.Memory, ...] = ()
  replay: stores.Replay | None = None
  compensation: compose.Compensation | None = None
  score_last: bool = False
  old_policy: old_policies.OldPolicy = old_policies.CURRENT
  readings: Callable[..., dict[str, Array]] | None = None


def make_prepare(
    recipe: Recipe, policy: types.Policy, layout: cells_lib.Layout
) -> Callable[..., tuple[tuple[types.Batch, ...], types.Rollout, dict[str, Array]]]:
  """prepare(rollout, state) -> (a Batch a minibatch, rollout, metrics f32[] by name).

  The rollout returned is the fresh one with its rewards and advantages: what a
  store or a log keeps. With a compensation, its batch is the last one.
  """

  def prepare(rollout, state):
    rollout = with_step(rollout, state.step)
    for memory in recipe.memories:
      rollout = memory.read(rollout, state)
    if recipe.score_first:
      rollout = _score_rows(rollout, recipe, policy, layout, state)
    rollout = rollout.replace(reward=recipe.reward(rollout))
    advantages = recipe.advantage(rollout)
    for transform in recipe.transforms:
      advantages = transform(advantages, rollout)
    row_weight = recipe.selection(rollout, advantages) * rollout.where
    if advantages.ndim == 1:
      advantages = jnp.broadcast_to(advantages[:, None], rollout.mask.shape)
    rollout = rollout.replace(advantages=advantages)
    metrics = readings.rollout_metrics(rollout, state.step)
    metrics['selected'] = readings.share(row_weight > 0, rollout.where)
    rollout, parts, counts = _parts(rollout, row_weight, recipe, policy, layout, state)

    batches, corrections, left_out = [], [], 0
    for rows, weight in parts:
      batch, num_kept, num_placed = pack(
          rows, weight, recipe.terms, recipe.advantage_only, layout)
      batch, corrected = scoring.score_cells(batch, recipe, policy, layout, state)
      batches.append(batch)
      corrections.append(corrected)
      left_out += num_kept - num_placed
    metrics['pack_left_out'] = left_out.astype(jnp.float32)
    corrected = jax.tree.map(lambda *xs: sum(xs) / len(xs), *corrections)
    return tuple(batches), rollout, metrics | counts | corrected

  return prepare


def with_step(rollout: types.Rollout, step: Array) -> types.Rollout:
  """The rollout with extras['step'] i32[B], for parts that follow a schedule."""
  steps = jnp.full(rollout.where.shape, step, jnp.int32)
  return rollout.replace(extras=rollout.extras | {'step': steps})


def _parts(rollout, row_weight, recipe, policy, layout, state):
  """What is trained: the rollout (stamped for a store), (rows, weights) a batch, counts."""
  trained, counts = rollout, {}
  if recipe.replay is not None or recipe.compensation is not None:
    trained = rollout = compose.stamped(rollout, row_weight)
  if recipe.replay is not None:
    score = lambda rows: _score_rows(with_step(rows, state.step), recipe, policy, layout, state)
    trained, counts = compose.join(rollout, state, recipe.replay, score)
    row_weight = trained.extras['row_weight'] * trained.where
  share = _minibatch(trained, state, recipe.minibatches)
  parts = [(trained, jnp.where(share == i, row_weight, 0.0)) for i in range(recipe.minibatches)]
  if recipe.compensation is not None:
    rest, more = compose.compensate(rollout, state, recipe.compensation)
    parts.append((with_step(rest, state.step), rest.where.astype(jnp.float32)))
    counts |= more
  # Stored prompts have one width; at that width one program serves all batches.
  width = parts[-1][0].prompts.tokens.shape[1]
  return rollout, [(rows_lib.pad_prompts(rows, width), w) for rows, w in parts], counts


def _minibatch(rollout, state, num):
  """i32[B]: the minibatch of each row; groups stay whole, their order is drawn."""
  if num == 1:
    return jnp.zeros(rollout.where.shape[0], jnp.int32)
  key = jax.random.fold_in(jax.random.fold_in(state.key, state.step), 1)
  num_rows = rollout.where.shape[0]
  filled = jax.ops.segment_max(rollout.where.astype(jnp.int32), rollout.group,
                               num_segments=num_rows) > 0
  draw = jnp.where(filled, jax.random.uniform(key, (num_rows,)), 2.0)
  rank = jnp.argsort(jnp.argsort(draw))
  return (rank % num)[rollout.group].astype(jnp.int32)


def pack(
    rollout: types.Rollout, row_weight: Array, terms: dict[str, Term], advantage_only: bool,
    layout: cells_lib.Layout,
) -> tuple[types.Batch, Array, Array]:
  """Weights from all rows with a positive weight, then the rows that can act, in cells.

  Returns:
    The batch, how many rows can act, and how many of them found a place.
  """
  where = rollout.where & (row_weight > 0)
  weights = {}
  for name, term in terms.items():
    mask = jnp.where(where[:, None], term.mask(rollout), 0.0)
    weights[name] = term.aggregate(mask, row_weight, where, rollout.group)
  acts = jnp.zeros_like(where)
  for weight in weights.values():
    if advantage_only:
      weight = jnp.where(rollout.advantages != 0, weight, 0.0)
    acts |= jnp.any(weight != 0, axis=1)
  batch, _ = _lay_out(rollout, acts, weights, layout)
  return batch, jnp.sum(acts), jnp.sum(batch.where)


def _lay_out(rollout, keep, weights, layout):
  """A Batch of the rows of `keep`, and the table of which row stands where."""
  table, used = cells_lib.place(rollout, keep, layout)
  prompts, prompt, group = cells_lib.localise(rollout, table, layout.prompts)
  per_row = {name: getattr(rollout, name) for name in (
      'tokens', 'valid', 'mask', 'temperature', 'rollout_logp', 'advantages', 'reward', 'version',
      'old_logp', 'ref_logp', 'gen_logp', 'value', 'extras')}
  rows = cells_lib.take(per_row | {'weights': weights}, table)
  return types.Batch(
      prompts=prompts, prompt=prompt, group=group, where=table < keep.shape[0], used=used,
      query_ids=rows['extras'].get(draws.IDS), **rows), table


def _score_rows(rollout, recipe, policy, layout, state):
  """Scores every row before the rewards; scores return to their rows."""
  blank = jnp.zeros_like(rollout.mask)
  unknown = rollout.replace(advantages=blank, reward=blank[:, 0])
  batch, table = _lay_out(unknown, rollout.where, {}, layout)

  def rows(params, names):
    scores = scoring.scores(batch, policy, layout, params, state.knobs, names)
    return {name: blank.at[table.reshape(-1)].set(x.reshape(-1, x.shape[-1]), mode='drop')
            for name, x in scores.items()}
  logp = lambda params: rows(params, ('logp',))['logp']
  changes = rows(state.params, ('logp', 'entropy', 'value'))
  current = changes.pop('logp')
  changes['old_logp'] = (current if recipe.old_policy is old_policies.CURRENT else
                         recipe.old_policy.logp(logp, rollout.version, state))
  if recipe.score_ref:
    changes['ref_logp'] = logp(state.anchors['ref'])
  return rollout.replace(**changes)
