"""One optimiser step on one batch: pure, and nothing but sums.

The same function runs under jit, pmap and a mesh (see parallel.py): a batch is
[D, M, ...] cells, D is vmapped, M is a loop over the cells in use with the
gradient taken inside it, so microbatches and devices only add.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from rlvr import types
from rlvr.losses import diagnostics
from rlvr.train import cells as cells_lib
from rlvr.train import prepare as prepare_lib

Array = jax.Array


def make_update(
    policy: types.Policy,
    terms: dict[str, prepare_lib.Term],
    optimizer: optax.GradientTransformation,
    layout: cells_lib.Layout,
) -> Callable[..., tuple[types.TrainState, dict[str, Array]]]:
  """update(state, batch, *, axis_name=None) -> (state, metrics f32[] by name).

  Minimises sum_k knobs['coef_k'] * sum(weights[k] * terms_k). A term's weight of
  exactly 0 selects it out, so what stands there cannot matter. Where no row
  is placed, or the gradient is not finite, parameters and optimiser stay as they
  are and `skipped` is 1; the step counter is the loop's.
  """

  def objective(params, cells, knobs):
    def one_cell(cell):
      out = policy.score(params, cell, knobs)
      total, sums = 0.0, {}
      for name, term in terms.items():
        weight = cell.weights[name]
        values, metrics = term.loss(out, cell.replace(weights={name: weight}), knobs)
        loss = jnp.sum(jnp.where(weight != 0, weight * values, 0.0))
        total += knobs[f'coef_{name}'] * loss
        sums[f'{name}/loss'] = (loss, 0.0)  # a sum already: nothing to divide by
        for key, metric in metrics.items():
          # A name that two terms share says whose it is.
          sums[f'{name}/{key}' if key in sums else key] = _weighted(metric, weight)
      counted = jnp.where(cell.where[:, None], cell.mask, 0.0)
      # Sampler and trainer are compared under the weights that wrote the token.
      logp = next(x for x in (cell.gen_logp, cell.old_logp, out.logp) if x is not None)
      metrics = diagnostics.mismatch(logp, cell.rollout_logp, cell.mask)
      for key, metric in {'entropy': out.entropy, **metrics}.items():
        sums[key] = _weighted(jax.lax.stop_gradient(metric), counted)
      return total, sums

    total, sums = jax.vmap(one_cell)(cells)
    return jnp.sum(total), jax.tree.map(jnp.sum, sums)

  def update(state, batch, *, axis_name=None):
    gradient = jax.value_and_grad(objective, has_aux=True)

    def visit(carry, m, cells):
      del m
      (loss, sums), grads = gradient(state.params, cells, state.knobs)
      return jax.tree.map(jnp.add, carry, (loss, sums, grads))

    first = jax.tree.map(lambda x: x[:, 0], batch.replace(used=None))
    shapes = jax.eval_shape(gradient, state.params, first, state.knobs)
    (loss, sums), grads = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    loss, sums, grads = cells_lib.over_cells(batch, layout, visit, (loss, sums, grads))
    num_rows = jnp.sum(batch.where)
    if axis_name is not None:
      loss, sums, grads, num_rows = jax.lax.psum((loss, sums, grads, num_rows), axis_name)

    grad_norm = optax.tree.norm(grads)
    taken = (num_rows > 0) & jnp.isfinite(grad_norm)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    keep = lambda new, old: jnp.where(taken, new, old)
    state = state.replace(
        params=jax.tree.map(keep, params, state.params),
        opt_state=jax.tree.map(keep, opt_state, state.opt_state))
    metrics = {name: total / jnp.where(weight != 0, weight, 1.0)
               for name, (total, weight) in sums.items()}
    metrics |= {'loss': loss, 'grad_norm': grad_norm,
                'skipped': 1.0 - taken.astype(jnp.float32),
                'trained_rows': num_rows.astype(jnp.float32)}
    return state, metrics

  return update


def _weighted(metric, weight):
  """(sum of w m, sum of w): added over cells, divided once at the end."""
  return jnp.sum(jnp.where(weight != 0, weight * metric, 0.0)), jnp.sum(weight)
