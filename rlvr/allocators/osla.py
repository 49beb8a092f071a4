"""One-step look-ahead: further rollouts are bought only where they pay (V0.5)."""

import jax
import jax.numpy as jnp

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
  order = jnp.argsort(-gain, stable=True)
  before = jnp.cumsum(wanted[order]) - wanted[order]
  given = jnp.clip(left - before, 0, wanted[order])
  return jnp.zeros_like(wanted).at[order].set(given)
