"""Mastery-gated soft length penalty: shorten only what is solved, and solved shorter."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array

NORMS = ('advantage', 'reward')


def excess_length(
    length: Array, right: Array, group: Array, where: Array, *, mastery: float, slack: float,
    width: float,
) -> Array:
  """c = clip((len - (1 + slack) L) / (width L), 0, 1) on right responses of mastered groups.

  Args:
    length: [B], in any unit.
    right: bool[B].
    group, where: i32[B], bool[B].
    mastery: a group is mastered if its share of right responses is at least this.
    slack: what a right response may exceed the shortest right one by, for free.
    width: how far beyond that, in shortest lengths, the penalty is complete.

  Returns:
    f32[B] in [0, 1]; 0 on wrong responses and in every group not mastered. L is
    the shortest right response of the group, at least 1.
  """
  right &= where
  share = groups.mean(right.astype(jnp.float32), group, where)
  length = length.astype(jnp.float32)
  shortest = jnp.maximum(groups.min(length, group, right), 1.0)
  excess = jnp.clip((length - (1 + slack) * shortest) / (width * shortest), 0.0, 1.0)
  return jnp.where(right & (share >= mastery), excess, 0.0)


def overthinking(
    rollout: types.Rollout,
    *,
    mastery: float = 1.0,
    slack: float = 0.0,
    width: float = 1.0,
    coef: float = 0.2,
    norm: str = 'advantage',
    start_step: int = 0,
    end_step: int = 0,
    correct_at: float = 1.0,
    eps: float = 1e-6,
) -> Array:
  """A = group_norm(right) - coef * (c - mean c), c the excess length of a right response.

  The length term is centred and not divided by a std: in an all-right group the
  std is length noise only, and would make a penalty of one token as large as one
  of a thousand.

  Args:
    rollout: reads columns (column 0 is the outcome), stop (a response that was cut
      off counts as wrong), mask (a response's length is its policy tokens), group,
      graded, where, and extras['step'] if the phase has bounds.
    mastery, slack, width: tau, in (0, 1]; at least 0; kappa, above 0: see
      `excess_length`.
    coef: alpha, in [0, 2): below 2 a long right answer ranks above a wrong one.
    norm: 'advantage' as above; 'reward' is group_norm(right - coef * c), for
      comparison.
    start_step, end_step: coef acts at steps start <= step < end of training and is
      0 elsewhere; end 0 never ends. Accuracy, compression, accuracy.
    correct_at: outcome that counts as right.
    eps: added to the std.

  Returns:
    f32[B], of mean 0 in a group. Mastered groups are where it acts, so do not drop
    them by outcome; `selection.live_groups` keeps those with a signal.

  Raises:
    ValueError: an option is out of range, or the step is missing.

  Source: Reinforcement Learning for Chain of Thought Compression with
  One-Domain-to-All Generalization (arXiv 2601.06052). Provenance: abstract only,
  reconstructed: the interval, the linear capped excess, coef and the centring
  without a std are ours.
  """
  if not 0 < mastery <= 1:
    raise ValueError(f'overthinking: mastery={mastery} must lie in (0, 1].')
  if slack < 0 or width <= 0:
    raise ValueError(
        f'overthinking: slack={slack} must be at least 0 and width={width} above 0.')
  if not 0 <= coef < 2:
    raise ValueError(
        f'overthinking: coef={coef} must lie in [0, 2), else a wrong answer may outrank a right '
        'one.')
  if norm not in NORMS:
    raise ValueError(f'overthinking: norm={norm!r} must be one of {", ".join(NORMS)}.')
  if start_step < 0 or (end_step and end_step < start_step) or end_step < 0:
    raise ValueError(
        f'overthinking: start_step={start_step} and end_step={end_step} must be ascending steps.')
  where, group = types.graded(rollout), rollout.group
  right = inputs.correct(rollout, correct_at) & (rollout.stop != types.BUDGET)
  length = jnp.sum(rollout.mask != 0, axis=-1)
  excess = excess_length(
      length, right, group, where, mastery=mastery, slack=slack, width=width)
  penalty = coef * excess
  if start_step or end_step:
    step = inputs.extra(rollout, 'step', 'overthinking with a schedule')
    active = (step >= start_step) & ((step < end_step) if end_step else True)
    penalty = jnp.where(active, penalty, 0.0)
  success = right.astype(jnp.float32)
  if norm == 'reward':
    return groups.group_norm(success - penalty, group, where, eps=eps)
  softly = groups.zero_off(penalty - groups.mean(penalty, group, where), where)
  return groups.group_norm(success, group, where, eps=eps) - softly
