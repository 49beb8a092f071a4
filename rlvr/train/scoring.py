"""Scores of a batch under the weights at hand, and the correction formed from them."""

import jax
import jax.numpy as jnp

from rlvr.train import cells as cells_lib

Array = jax.Array


def score_cells(batch, recipe, policy, layout, state):
  """Old and reference log-probs where they are needed and missing, then the correction.

  Args:
    batch: a types.Batch, packed.
    recipe: a prepare.Recipe.
    policy, layout, state: as `prepare` has them.

  Returns:
    The batch, and f32[] metrics by name of what the correction decided.
  """
  logp = lambda params: scores(batch, policy, layout, params, state.knobs)['logp']
  old = recipe.old_policy
  if recipe.score_old and batch.old_logp is None:
    batch = batch.replace(old_logp=old.logp(logp, batch.version, state))
  if recipe.score_ref and batch.ref_logp is None:
    batch = batch.replace(ref_logp=logp(state.anchors['ref']))
  if recipe.score_last:
    batch = batch.replace(extras=batch.extras | {'prev_logp': logp(state.anchors['prev'])})
  if batch.old_logp is None:
    return batch, {}
  # A stored row's sampler is compared with the trainer of its own step.
  written = batch.old_logp if batch.gen_logp is None else batch.gen_logp
  flat = [x.reshape(-1, x.shape[-1]) for x in (written, batch.rollout_logp, batch.mask)]
  correction = recipe.correction(*flat).reshape(batch.mask.shape)
  metrics = {} if recipe.readings is None else recipe.readings(*flat)
  if old.known is not None:
    gone = (batch.mask != 0) & ~old.known(batch.version, state)
    correction = jnp.where(gone, 0.0, correction)
    metrics['old_gone'] = jnp.sum(gone) / jnp.maximum(jnp.sum(batch.mask != 0), 1)
  return batch.replace(correction=correction), metrics


def scores(batch, policy, layout, params, knobs, names=('logp',)) -> dict[str, Array]:
  """f32[D, M, n, T] by name: scores of all cells in use under `params`, 0 off `valid`."""
  params = policy.cast(params)

  def score(cell):
    out = policy.score(params, cell, knobs)
    return {name: getattr(out, name) for name in names if getattr(out, name) is not None}

  def visit(held, m, cells):
    new = jax.vmap(score)(cells)
    def put(old, value):
      return jax.lax.dynamic_update_slice(
          old, jnp.where(cells.valid, value, 0.0)[:, None], (0, m, 0, 0))
    return jax.tree.map(put, held, new)

  first = jax.tree.map(lambda x: x[0, 0], batch.replace(used=None))
  blank = {name: jnp.zeros(batch.tokens.shape, jnp.float32)
           for name in jax.eval_shape(score, first)}
  return cells_lib.over_cells(batch, layout, visit, blank)
