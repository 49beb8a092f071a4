"""How per-token terms become one number: a weight array, made once from the whole batch.

A loss never reduces. An aggregate gives weights f32[B, T] from the whole rollout,
before it is split into cells, and the objective is sum(weights * terms): every
divisor is that of the global batch, and microbatches and devices only add.

The signature of every entry is (mask, row_weight, where=None, group=None):
  mask: f32[B, T], 1 on the tokens that the term acts on. Rows that a selection
    has filtered come with mask 0, so the token divisors shrink.
  row_weight: f32[B], at least 0; scales a row's terms, never a divisor.
  where: bool[B], the rows that are counted: they hold a response and were not
    filtered. A counted row may be empty; padding rows are not counted. None
    counts every row.
  group: i32[B], the statistics group; only the prompt_* entries read it.
The result is exactly 0 off the mask and off `where`, finite for empty input (no
tokens at all: all zeros), and carries no gradient. "Sum" below is for
row_weight = 1.
"""

import chex
import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import spec

Array = jax.Array


def _prepare(mask, row_weight, where):
  chex.assert_rank(mask, 2)
  chex.assert_shape(row_weight, mask.shape[:1])
  if where is None:
    where = jnp.ones(mask.shape[:1], bool)
  chex.assert_shape(where, mask.shape[:1])
  chex.assert_type(where, bool)
  kept = jnp.where(where[:, None], (mask != 0).astype(jnp.float32), 0.0)
  return kept, kept * groups.zero_off(row_weight, where)[:, None], where


def token_mean(
    mask: Array, row_weight: Array, where: Array | None = None, group: Array | None = None
) -> Array:
  """1 / (tokens in the batch) on each token: long responses weigh more.

  Args and edge cases: see the module.

  Returns:
    f32[B, T]; sum 1.

  Source: DAPO (arXiv 2503.14476), token-level loss.
  """
  del group
  kept, weight, _ = _prepare(mask, row_weight, where)
  return weight / jnp.maximum(jnp.sum(kept), 1.0)


def seq_mean_token_mean(
    mask: Array, row_weight: Array, where: Array | None = None, group: Array | None = None
) -> Array:
  """1 / (len * non-empty rows) on each token: every response weighs the same.

  Args and edge cases: see the module. Empty rows are not counted.

  Returns:
    f32[B, T]; sum 1.

  Source: DeepSeekMath (arXiv 2402.03300), the GRPO objective.
  """
  del group
  kept, weight, _ = _prepare(mask, row_weight, where)
  length = jnp.sum(kept, axis=-1, keepdims=True)
  num_rows = jnp.sum(length > 0)
  return weight / jnp.maximum(length, 1.0) / jnp.maximum(num_rows, 1)


def seq_sum_constant(
    mask: Array,
    row_weight: Array,
    where: Array | None = None,
    group: Array | None = None,
    *,
    constant: float = 3000.0,
) -> Array:
  """1 / (B * constant) on each token, B the counted rows: no length normalisation.

  Args:
    mask, row_weight, where, group: see the module. An empty row of `where` is
      counted in B.
    constant: tokens, fixed for the run: the generation limit, never the longest
      response of a batch, which would couple rows through padding.

  Returns:
    f32[B, T]; sum = tokens / (B * constant).

  Raises:
    ValueError: constant is not positive.

  Source: Understanding R1-Zero-Like Training (arXiv 2503.20783), Dr. GRPO; 3000
  is the limit of the official run.
  """
  del group
  if constant <= 0:
    raise ValueError(f'seq_sum_constant: constant={constant} must be positive (tokens).')
  _, weight, where = _prepare(mask, row_weight, where)
  return weight / (jnp.maximum(jnp.sum(where), 1) * constant)


def seq_sum(
    mask: Array, row_weight: Array, where: Array | None = None, group: Array | None = None
) -> Array:
  """1 / B on each token, B the counted rows: a response is one action.

  Args and edge cases: see the module. An empty row of `where` is counted in B.

  Returns:
    f32[B, T]; sum = tokens / B.

  Source: Back to Basics (arXiv 2402.14740), the RLOO objective.
  """
  return seq_sum_constant(mask, row_weight, where, group, constant=1.0)


def prompt_mean_token_mean(
    mask: Array, row_weight: Array, where: Array | None = None, group: Array | None = None
) -> Array:
  """1 / (tokens in the group * non-empty groups): every prompt weighs the same.

  Args and edge cases: see the module. `group` is required; a group without
  tokens is not counted.

  Returns:
    f32[B, T]; sum 1.

  Raises:
    ValueError: group is None.
  """
  kept, weight, where = _prepare(mask, row_weight, where)
  in_group, num_groups = _group_totals(jnp.sum(kept, axis=-1), group, where, 'token_mean')
  return weight / jnp.maximum(in_group, 1.0)[:, None] / num_groups


def prompt_mean_seq_mean(
    mask: Array, row_weight: Array, where: Array | None = None, group: Array | None = None
) -> Array:
  """1 / (len * non-empty rows in the group * non-empty groups) on each token.

  The mean over groups of seq_mean_token_mean inside each; equal to it when
  groups are even.

  Args and edge cases: see the module. `group` is required; empty rows and
  groups without tokens are not counted.

  Returns:
    f32[B, T]; sum 1.

  Raises:
    ValueError: group is None.
  """
  kept, weight, where = _prepare(mask, row_weight, where)
  length = jnp.sum(kept, axis=-1)
  in_group, num_groups = _group_totals(
      (length > 0).astype(jnp.float32), group, where, 'seq_mean')
  per_row = jnp.maximum(length, 1.0) * jnp.maximum(in_group, 1.0)
  return weight / per_row[:, None] / num_groups


def _group_totals(x, group, where, name):
  """f32[B] sum of x over the row's group, and how many groups have a positive one."""
  if group is None:
    raise ValueError(f'prompt_mean_{name}: group is None; it averages inside each group.')
  totals = groups.sum(x, group, where)
  filled = where & (totals > 0)
  num_groups = jnp.sum(filled & (groups.index(group, filled) == 0))
  return totals, jnp.maximum(num_groups, 1)


AGGREGATES = spec.make_table(
    token_mean,
    seq_mean_token_mean,
    seq_sum_constant,
    seq_sum,
    prompt_mean_token_mean,
    prompt_mean_seq_mean,
)
