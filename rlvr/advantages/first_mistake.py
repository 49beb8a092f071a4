"""Blame that starts at the first mistake: Cliff."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array


def cliff(
    rollout: types.Rollout, *, prefix_weight: float = 0.0, correct_at: float = 1.0
) -> Array:
  """Binary GRPO, less for the tokens before a wrong answer's first mistake.

  With mu the share of right answers in a group and sigma = sqrt(mu (1 - mu)),
  A_cor = (1 - mu) / sigma and A_inc = -mu / sigma,

    B_t = A_cor                   right
          prefix_weight * A_cor   wrong, t < first_error
          A_inc                   wrong, t >= first_error
    A_t = B_t - b,  b the mean of B over all tokens of the group.

  Because of b, the prefix of a wrong answer is spared at prefix_weight 0, not
  rewarded: it usually gets a little less than 0. At 1 it is worth as much as a
  right answer.

  Args:
    rollout: reads columns (0 is the outcome; the shaped reward is not read), mask,
      group, graded, where, extras['first_error'] i32[B] (a response position;
      outside the response: the whole response is blamed) and, where there is one,
      extras['trusted'] bool[B], the same on all rows of a group: 0 where the judge
      could not solve the task itself, which gives binary GRPO, without b.
    prefix_weight: lambda, in [0, 1]; above 0 the paper found longer responses.
    correct_at: outcome from which an answer is right.

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows. Groups that are all right or
    all wrong give 0. The tokens of a mixed, trusted group sum to 0. The verifier
    is believed where the judge finds a mistake in a right answer.

  Raises:
    ValueError: prefix_weight out of range, or no first_error.

  Source: Cliff (arXiv 2609.02817). Provenance: method section read, appendices
  not. Ours: what is done with unusable positions.
  """
  if not 0 <= prefix_weight <= 1:
    raise ValueError(f'cliff: prefix_weight={prefix_weight} must lie in [0, 1].')
  right, where = inputs.correct(rollout, correct_at), types.graded(rollout)
  start = inputs.extra(rollout, 'first_error', 'cliff')
  mask = groups.zero_off((rollout.mask != 0).astype(jnp.float32),
                         jnp.broadcast_to(where[:, None], rollout.mask.shape))
  # A_cor on right rows and A_inc on wrong ones; an all-equal group is 0 in both.
  outcome = groups.group_norm(right.astype(jnp.float32), rollout.group, where, eps=0.0)
  best = groups.max(outcome, rollout.group, where)

  start = jnp.where((start < 0) | (start >= types.lengths(rollout)), 0, start)
  before = jnp.arange(mask.shape[1])[None] < start[:, None]
  spared = before & ~right[:, None]
  level = jnp.where(spared, prefix_weight * best[:, None], outcome[:, None])
  total = groups.sum(groups.row_sum(level, mask), rollout.group, where)
  tokens = groups.sum(jnp.sum(mask, axis=1), rollout.group, where)
  centred = level - (total / jnp.maximum(tokens, 1))[:, None]
  mixed = ~groups.all_equal(outcome, rollout.group, where)
  trusted = rollout.extras['trusted'] != 0 if 'trusted' in rollout.extras else mixed
  advantage = jnp.where((trusted & mixed)[:, None], centred, outcome[:, None])
  return groups.zero_off(advantage, mask)
