"""Which tasks are worth a step: those whose rollouts differ from their first step on."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import step_returns
from rlvr.selection import filters

Array = jax.Array


def varied_returns(
    rollout: types.Rollout, advantages: Array, *, base=filters.keep_all, discount: float = 0.5,
    min_std: float = 0.3,
) -> Array:
  """base, and 0 on groups whose returns R_0 have a population std of `min_std` or less.

  Args:
    rollout: as for `step_returns.step_returns`; the first step has step_index 0.
    advantages: passed to `base`.
    base: a part of SELECTION.
    discount: of the return, that of `semi_online`.
    min_std: at least 0.

  Returns:
    f32[B]; all rows of a kept group keep base's weight. A sole rollout has no spread
    and is dropped.

  Raises:
    ValueError: an option out of range, or an extra is missing.

  Source: UI-S1 (arXiv 2509.11543), see `advantages.semi_online`; the refill of the
  batch is the loop's. Provenance: official code read.
  """
  if min_std < 0:
    raise ValueError(f'varied_returns: min_std={min_std} must be at least 0.')
  returns = step_returns.step_returns(rollout, discount=discount)
  first = types.graded(rollout) & (rollout.extras['step_index'] == 0)
  spread = groups.std(returns, rollout.group, first)
  return jnp.where(spread > min_std, base(rollout, advantages), 0.0)
