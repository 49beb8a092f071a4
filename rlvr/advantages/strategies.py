"""ARC: a response is compared only with others of the same interaction strategy."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.rewards import columns as columns_lib

Array = jax.Array

SINGLETONS = ('zero', 'prompt')


def arc(
    rollout: types.Rollout,
    *,
    base=group_relative.dr_grpo,
    label: str = '',
    singleton: str = 'zero',
    between: float = 0.0,
) -> Array:
  """base over (prompt, strategy) groups, plus between * (m_k - mean_k m_k).

  Style effects of variance v between strategies and w within give a centred
  advantage of variance (v + w)(1 - 1/N) in a mixed group and w (1 - 1/N) here.

  Args:
    rollout: reads group, graded, where, what `base` reads, extras[label] i32[B],
      and columns if between is not 0.
    base: the advantage inside a subgroup; `dr_grpo` divides by no std (the
      paper's), `grpo` does.
    label: the key in extras of each row's strategy, any integers, found after the
      fact by a parser, say; '' where a prompt's responses were all sampled under
      one instruction (`envs.with_strategies`), so that its group is the subgroup.
    singleton: what a subgroup of one gets: 'zero', or base over the whole
      'prompt'.
    between: eta, at least 0: pays a subgroup for its mean m_k of the raw outcome,
      less the mean over the prompt's subgroups, so that the choice of strategy can
      be learnt without the taste of a reward model.

  Returns:
    f32[B]; sums to 0 in every subgroup if `base` does and between is 0. All
    strategies different and singleton 'zero': 0 everywhere.

  Raises:
    ValueError: an option is out of range, or the labels are missing.

  Source: ARC (arXiv 2608.13622). Provenance: abstract and a detailed public
  summary with the formulas; paper body and code not seen. Ours: grouping after the
  fact, `singleton` and `between`. The paper's hybrid reward is
  `rewards.weighted_columns`, its entropy term `losses.entropy_bonus` (1e-3).
  """
  if singleton not in SINGLETONS:
    raise ValueError(f'arc: singleton={singleton!r} must be one of {", ".join(SINGLETONS)}.')
  if between < 0:
    raise ValueError(f'arc: between={between} must be at least 0.')
  where = types.graded(rollout)
  subgroup = rollout.group
  if label:
    subgroup = order.dense(rollout.group, inputs.extra(rollout, label, 'arc'))
  advantages = base(rollout.replace(group=subgroup))
  if singleton == 'prompt':
    alone = groups.count(subgroup, where) == 1
    advantages = jnp.where(alone, base(rollout), advantages)
  if between:
    outcome = columns_lib.graded_columns(rollout)[:, 0]
    inside = groups.mean(outcome, subgroup, where)
    once = where & (groups.index(subgroup, where) == 0)  # a subgroup counts once
    lead = inside - groups.mean(inside, rollout.group, once)
    advantages += groups.zero_off(between * lead, where)
  return advantages
