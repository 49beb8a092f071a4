"""MC-GRPO: the group's median as its baseline, for very small groups."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array

SCALES = ('mad', 'std', 'none')
FALLBACKS = ('none', 'std')


def mc_grpo(
    rollout: types.Rollout, *, scale: str = 'mad', fallback: str = 'none', eps: float = 1e-3
) -> Array:
  """A = (r - median) / (MAD + eps), MAD the median of |r - median|.

  Both are lower medians, so the baseline is one of the rewards, and its row, the
  pivot, has A = 0: sample one response more than are trained and leave the pivot
  out with `selection.drop_pivot`.

  Args:
    rollout: reads reward, group, graded, where.
    scale: 'mad', 'std' (of the group, ddof 0) or 'none' (no division at all).
    fallback: where MAD is 0, 'none' keeps it (official), 'std' divides by the
      group's std + eps. With binary rewards and an odd group MAD is always 0, and
      the minority gets +-1 / eps: then set 'std', or scale 'none', unless
      gradients are clipped by norm.
    eps: added to the scale; 1e-3 in the official code.

  Returns:
    f32[B]. An all-equal group, a sole member and ungraded rows give exactly 0; of
    an odd number n of members at most n // 2 are positive, and as many negative.

  Raises:
    ValueError: an unknown scale or fallback, or eps is not positive.

  Source: MC-GRPO (arXiv 2601.22582). Provenance: official code read
  (lotusroot-kim/MC-GRPO: src/open_r1/grpo_trainer_math.py) and the abstract; the
  rule for ties (the first row) and `fallback` are ours.
  """
  for name, option, known in (('scale', scale, SCALES), ('fallback', fallback, FALLBACKS)):
    if option not in known:
      raise ValueError(f'mc_grpo: {name}={option!r} must be one of {", ".join(known)}.')
  if eps <= 0:
    raise ValueError(f'mc_grpo: eps={eps} must be positive.')
  reward, where = inputs.graded_reward(rollout)
  median, _ = order.pivot(reward, rollout.group, where)
  centred = groups.zero_off(reward - median, where)
  if scale == 'none':
    return centred
  std = groups.std(reward, rollout.group, where)
  if scale == 'std':
    return centred / (std + eps)
  spread = groups.median(jnp.abs(centred), rollout.group, where, lower=True)
  if fallback == 'std':
    spread = jnp.where(spread > 0, spread, std)
  return centred / (spread + eps)
