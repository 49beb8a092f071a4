"""Right answers of a prompt pulled together before they are given: Hidden-Align."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types

Array = jax.Array

MODES = ('pairwise', 'centroid')
_SMALLEST_NORM = 1e-8


def hidden_align(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    mode: str = 'pairwise',
) -> tuple[Array, dict[str, Array]]:
  """1 - the mean cosine of a row's hidden state with those of its group's other rows.

  With u_i = h_i / |h_i|, S = sum_i u_i over the K rows of a group that the term
  acts on, the term of row i is

    pairwise  1 - (u_i . S - |u_i|^2) / (K - 1)
    centroid  1 - u_i . S / |S|,  S held constant

  so that its mean over the K rows is 1 - the mean cosine of the pairs. A row's h
  is `out.hidden` where its own weight is not 0, one position a row: the state
  that predicts that token, all that is read before it. Which rows and where is
  the term's mask (`masks.answer_anchor`), the averaging its aggregate
  (`aggregate.prompt_mean_token_mean`: the mean over groups).

  Args:
    out: reads hidden [n, T, d], after the last norm.
    cell: reads weights (the term's own), group; whole groups share a cell.
    knobs: not read.
    mode: 'pairwise', with the gradient through both members of a pair, or
      'centroid'.

  Returns:
    terms f32[n, T] in [0, 2], 0 off the term's weight and for a row alone in its
    group; metrics anchor_cosine, 1 - term there. Normalised and summed in f32;
    scaling a row's state changes nothing.

  Raises:
    ValueError: an unknown mode, or a policy that gives no hidden states.

  Source: Right Makes Might (arXiv 2606.03234), Hidden-Align. Provenance: abstract
  only, reconstructed: the coefficient, the averaging over pairs and prompts, no
  stop-gradient, the centroid and the anchor.
  """
  del knobs
  if mode not in MODES:
    raise ValueError(f'hidden_align: mode={mode!r} must be one of {", ".join(MODES)}.')
  if out.hidden is None:
    raise ValueError('hidden_align reads out.hidden, which is None; this policy gives none.')
  (weight,) = cell.weights.values()
  at = weight != 0
  # One position a row, so a sum over positions is a choice.
  hidden = jnp.sum(jnp.where(at[..., None], out.hidden.astype(jnp.float32), 0.0), axis=1)
  where = jnp.any(at, axis=1)
  unit = _unit(hidden)
  total = groups.sum(unit, cell.group, jnp.broadcast_to(where[:, None], unit.shape))
  num_others = groups.count(cell.group, where) - 1
  if mode == 'pairwise':
    cosine = jnp.sum(unit * (total - unit), axis=1) / jnp.maximum(num_others, 1)
  else:
    cosine = jnp.sum(unit * jax.lax.stop_gradient(_unit(total)), axis=1)
  term = jnp.where(where & (num_others > 0), 1.0 - cosine, 0.0)
  terms = jnp.where(at, term[:, None], 0.0)
  cosines = jnp.where(at & (num_others > 0)[:, None], 1.0 - terms, 0.0)
  return terms, {'anchor_cosine': jax.lax.stop_gradient(cosines)}


def _unit(x):
  """x / |x| of f32[n, d]; 0, with gradient 0, where |x| is below 1e-8."""
  square = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
  safe = square > _SMALLEST_NORM**2
  return jnp.where(safe, x / jnp.sqrt(jnp.where(safe, square, 1.0)), 0.0)
