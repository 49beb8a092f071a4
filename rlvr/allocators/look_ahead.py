"""One-step look-ahead: further rollouts are bought only where they pay (V0.5)."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array

COST = 1 / 256  # even an unbounded bias stops at 16 rollouts


def fused_error(bias: Array, num: Array) -> Array:
  """MSE(n) = D / (1 + n D): the squared error of the best fusion of n rewards and a prior.

  Args:
    bias: f32[..], D, the squared bias of the prior, at least 0.
    num: [..], n, at least 0; rewards on the scale [-1, 1].

  Returns:
    f32[..]; 0 where the prior has no bias.
  """
  return bias / (1 + num * bias)


def osla_gain(mean: Array, prior: Array, num: Array, *, add: int = 1) -> Array:
  """(MSE(n) - MSE(n + add)) / add: what a further rollout takes off the error.

  The bias is held at what it is believed to be now, max(0, (mean - prior)^2 - 1/n).

  Args:
    mean, prior: f32[P], of n rewards on the scale [-1, 1], and the guess.
    num: i32[P], n, at least 1.
    add: rollouts drawn at a time, at least 1.

  Returns:
    f32[P], at least 0; 0 where the two agree within the noise.

  Raises:
    ValueError: add is below 1.
  """
  if add < 1:
    raise ValueError(f'osla_gain: add={add} must be at least 1.')
  num = jnp.asarray(num, jnp.float32)
  bias = jnp.maximum(jnp.square(mean - prior) - 1 / jnp.maximum(num, 1.0), 0.0)
  return (fused_error(bias, num) - fused_error(bias, num + add)) / add


def osla_round(
    mean: Array, prior: Array, num: Array, left: Array, *, add: int = 1, max_num: int = 16,
    cost: float = COST,
) -> Array:
  """i32[P]: rollouts to draw in this round; all zeros ends the rounds.

  Prompts whose gain is above the cost and that have room get min(add, max_num - n,
  what is left), in the order of their gain; of equal gains the lower index goes first.

  Args:
    mean, prior, num: as for `osla_gain`, of all rollouts so far.
    left: i32[], rollouts that the batch may still draw.
    add, max_num: at least 1; rollouts a prompt at most.
    cost: of a rollout, in squared error, positive.

  Returns:
    i32[P], at least 0, of sum at most left.

  Raises:
    ValueError: an option is out of range.

  Source: V0.5 (arXiv 2603.10848), one-step look-ahead allocation: 4 to 16 rollouts
  a prompt. Provenance: a detailed public reading note with the formulas; the bias
  held fixed, the batch's order and its bound are ours.
  """
  if max_num < 1 or cost <= 0:
    raise ValueError(f'osla_round: max_num={max_num} must be at least 1 and cost={cost} positive.')
  gain = osla_gain(mean, prior, num, add=add)
  wanted = jnp.where(gain > cost, jnp.clip(max_num - num, 0, add), 0)
  queue = jnp.argsort(-gain, stable=True)
  before = jnp.cumsum(wanted[queue]) - wanted[queue]
  given = jnp.clip(left - before, 0, wanted[queue])
  return jnp.zeros_like(wanted).at[queue].set(given)


def no_extra(rollout: types.Rollout, left: Array | int) -> Array:
  """i32[P] of zeros: every prompt keeps the responses that it has."""
  del left
  return jnp.zeros(rollout.prompts.id.shape, jnp.int32)


def osla(
    rollout: types.Rollout,
    left: Array | int,
    *,
    add: int = 1,
    most: int = 16,
    cost: float = COST,
    low: float = -1.0,
    high: float = 1.0,
) -> Array:
  """i32[P]: `osla_round` on the outcomes so far and the prior of each prompt.

  Args:
    rollout: reads columns (column 0, the raw outcome), prompt, prompts.id, where,
      graded and extras['prior'] f32[B] in units of the outcome. All rows of one
      dataset id are pooled; the first of its prompts gets what the id gets.
    left: i32[], rows that may still be bought.
    add: responses a prompt may gain in a round; 1 in the paper, more batch better.
    most: responses of a prompt at most, the first ones included.
    cost: of a response, in squared error on the scale [-1, 1].
    low, high: the range of the outcome, mapped to -1 ... 1.

  Returns:
    i32[P], of sum at most left; 0 for a prompt that has no graded row.

  Raises:
    ValueError: an option out of range, or no prior.

  Source: V0.5 (arXiv 2603.10848); see `osla_round`. The next rows are chosen by what
  came first, which biases the mean a little, O(1/sqrt(n)); accepted.
  """
  if not low < high:
    raise ValueError(f'osla: low={low} must be below high={high}.')
  num_prompts = rollout.prompts.id.shape[0]
  ids = order.dense(rollout.prompts.id)
  graded = types.graded(rollout)
  scale = lambda x: jnp.clip(2 * (x - low) / (high - low) - 1, -1.0, 1.0)
  per_id = lambda x, where: jax.ops.segment_sum(
      groups.zero_off(x, where), ids[rollout.prompt], num_segments=num_prompts)
  num, rows = (per_id(where, where).astype(jnp.int32) for where in (graded, rollout.where))
  divisor = jnp.maximum(num, 1)
  mean = per_id(scale(rollout.columns[:, 0]), graded) / divisor
  prior = per_id(scale(inputs.extra(rollout, 'prior', 'osla')), graded) / divisor
  # An id without a verdict has no room, so it asks for nothing.
  counts = osla_round(mean, prior, jnp.where(num > 0, num, most), left,
                      add=add, max_num=most, cost=cost)
  counts = jnp.minimum(counts, jnp.maximum(most - rows, 0))
  first = jnp.argmax(ids[:, None] == ids[None, :], axis=1) == jnp.arange(num_prompts)
  return jnp.where(first, counts[ids], 0)
