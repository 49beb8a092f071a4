"""From what happened to what is trained: Rollout -> Batch, once a batch.

In this order: rewards, advantage, transforms, selection, weights, pack into
cells, score the old and reference policies, correction. Weights see all B rows,
so no divisor depends on packing. Afterwards update only adds.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import memory as memory_lib
from rlvr import stages
from rlvr import types
from rlvr.train import cells as cells_lib

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
    score_ref: score anchors['ref'].
    score_first: score all rows before the rewards, for parts that read scores.
    minibatches: optimiser steps that a batch is split into.
    memories: what the method remembers between steps, read before anything else.
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


def make_prepare(
    recipe: Recipe, policy: types.Policy, layout: cells_lib.Layout
) -> Callable[..., tuple[tuple[types.Batch, ...], types.Rollout, dict[str, Array]]]:
  """prepare(rollout, state) -> (a Batch a minibatch, rollout, metrics f32[] by name).

  The rollout returned has its rewards and advantages: what a store or a log keeps.
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

    batches, placed = [], 0
    share = _minibatch(rollout, state, recipe.minibatches)
    for i in range(recipe.minibatches):
      batch, num_kept, num_placed = pack(
          rollout, jnp.where(share == i, row_weight, 0.0), recipe.terms, recipe.advantage_only,
          layout)
      batches.append(_score_cells(batch, recipe, policy, layout, state))
      placed += num_kept - num_placed
    metrics = rollout_metrics(rollout, state.step)
    metrics['pack_left_out'] = placed.astype(jnp.float32)
    metrics['selected'] = _share(row_weight > 0, rollout.where)
    return tuple(batches), rollout, metrics

  return prepare


def with_step(rollout: types.Rollout, step: Array) -> types.Rollout:
  """The rollout with extras['step'] i32[B], for parts that follow a schedule."""
  steps = jnp.full(rollout.where.shape, step, jnp.int32)
  return rollout.replace(extras=rollout.extras | {'step': steps})


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
      'old_logp', 'ref_logp', 'extras')}
  rows = cells_lib.take(per_row | {'weights': weights}, table)
  return types.Batch(
      prompts=prompts, prompt=prompt, group=group, where=table < keep.shape[0], used=used,
      **rows), table


def _score_cells(batch, recipe, policy, layout, state):
  """Old and reference log-probs where they are needed and missing, then the correction."""
  if recipe.score_old and batch.old_logp is None:
    batch = batch.replace(
        old_logp=_scores(batch, policy, layout, state.params, state.knobs)['logp'])
  if recipe.score_ref and batch.ref_logp is None:
    batch = batch.replace(
        ref_logp=_scores(batch, policy, layout, state.anchors['ref'], state.knobs)['logp'])
  if batch.old_logp is not None:
    flat = lambda x: x.reshape(-1, x.shape[-1])
    correction = recipe.correction(
        *(flat(x) for x in (batch.old_logp, batch.rollout_logp, batch.mask)))
    batch = batch.replace(correction=correction.reshape(batch.mask.shape))
  return batch


def _scores(batch, policy, layout, params, knobs, names=('logp',)):
  """f32[D, M, n, T] by name: scores of all cells in use under `params`, 0 off `valid`."""
  params = policy.cast(params)

  def score(cell):
    out = policy.score(params, cell, knobs)
    return {name: getattr(out, name) for name in names if getattr(out, name) is not None}

  def visit(scores, m, cells):
    new = jax.vmap(score)(cells)
    def put(old, value):
      return jax.lax.dynamic_update_slice(
          old, jnp.where(cells.valid, value, 0.0)[:, None], (0, m, 0, 0))
    return jax.tree.map(put, scores, new)

  first = jax.tree.map(lambda x: x[0, 0], batch.replace(used=None))
  blank = {name: jnp.zeros(batch.tokens.shape, jnp.float32)
           for name in jax.eval_shape(score, first)}
  return cells_lib.over_cells(batch, layout, visit, blank)


def _score_rows(rollout, recipe, policy, layout, state):
  """Scores every row before the rewards; scores return to their rows."""
  blank = jnp.zeros_like(rollout.mask)
  unknown = rollout.replace(advantages=blank, reward=blank[:, 0])
  batch, table = _lay_out(unknown, rollout.where, {}, layout)

  def rows(params, names):
    scores = _scores(batch, policy, layout, params, state.knobs, names)
    return {name: blank.at[table.reshape(-1)].set(x.reshape(-1, x.shape[-1]), mode='drop')
            for name, x in scores.items()}
  scores = rows(state.params, ('logp', 'entropy', 'value'))
  changes = {'old_logp': scores.pop('logp'), **scores}
  if recipe.score_ref:
    changes['ref_logp'] = rows(state.anchors['ref'], ('logp',))['logp']
  return rollout.replace(**changes)


def rollout_metrics(rollout: types.Rollout, step: Array) -> dict[str, Array]:
  """What a batch was like, f32[] by name; shares are of rows that hold a response."""
  where, graded = rollout.where, types.graded(rollout)
  length = types.lengths(rollout).astype(jnp.float32)
  raw = rollout.reward if rollout.columns is None else rollout.columns[:, 0]
  raw = jnp.where(graded, raw, 0.0)
  first = where & (groups.index(rollout.group, where) == 0)
  dead = groups.all_equal(raw, rollout.group, graded)
  stale = jnp.where(rollout.mask != 0, step - rollout.version, 0)
  tokens = jnp.sum(rollout.mask != 0)
  return {
      'reward': _share(rollout.reward, graded),
      'reward_std': _share(groups.std(rollout.reward, rollout.group, graded), first),
      'outcome': _share(raw, graded),
      'length': _share(length, where),
      'length_right': _share(length, graded & (raw > 0)),
      'length_wrong': _share(length, graded & (raw <= 0)),
      'truncated': _share(rollout.stop == types.BUDGET, where),
      'aborted': _share(rollout.stop == types.ABORT, where),
      'ungraded': _share(~graded, where),
      'dead_groups': _share(dead, first),
      'all_right_groups': _share(dead & (groups.max(raw, rollout.group, graded) > 0), first),
      'staleness': jnp.sum(stale) / jnp.maximum(tokens, 1),
      'tokens': tokens.astype(jnp.float32),
      'rows': jnp.sum(where).astype(jnp.float32),
  }


def _share(x: Any, where: Array) -> Array:
  """Mean of x over `where`; 0 where it is empty."""
  total = jnp.sum(jnp.where(where, x, 0).astype(jnp.float32))
  return total / jnp.maximum(jnp.sum(where), 1)
