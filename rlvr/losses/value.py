"""The critic's loss."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import traces
from rlvr import types

Array = jax.Array


def value_loss(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    discount: float = 1.0,
    trace: float = 1.0,
    clip: float = 0.0,
) -> tuple[Array, dict[str, Array]]:
  """(V - target)^2 / 2 per token; target = A(discount, trace) + V_old, frozen.

  With discount 1 and trace 1 the target is the outcome on every token.

  Args:
    out: reads value f32[n, T].
    cell: reads reward, mask and value, the critic's at the start of the step.
      Ungraded rows have no outcome: give the term the mask
      `masks.graded_tokens`.
    knobs: not read.
    discount, trace: gamma and lambda of the target, in [0, 1]; those of the
      advantage for PPO's targets.
    clip: above 0, the larger of the loss and that of V held within clip of V_old
      (PPO's clipped value); 0 is off.

  Returns:
    terms f32[n, T], 0 off the mask; metrics value, value_target, value_error =
    |V - target|.

  Raises:
    ValueError: an option is out of range, or there is no critic.

  Source: PPO (arXiv 1707.06347) and GAE (arXiv 1506.02438); the clipped value
  from the reference code of the first, from knowledge.
  """
  del knobs
  for name, option in (('discount', discount), ('trace', trace)):
    if not 0 <= option <= 1:
      raise ValueError(f'value_loss: {name}={option} must lie in [0, 1].')
  if clip < 0:
    raise ValueError(f'value_loss: clip={clip} must be at least 0.')
  if out.value is None or cell.value is None:
    raise ValueError('value_loss reads values, which are None; the run needs a critic '
                     '(":critic.value=value_head") and config.score_first=True.')
  mask = cell.mask
  old = jax.lax.stop_gradient(groups.zero_off(cell.value, mask))
  outcome = groups.zero_off(cell.reward, cell.where)
  target = old + traces.outcome_gae(outcome, old, mask, discount=discount, trace=trace)
  target = jax.lax.stop_gradient(target)
  value = groups.zero_off(out.value, mask)
  terms = jnp.square(value - target) / 2
  if clip:
    held = old + jnp.clip(value - old, -clip, clip)
    terms = jnp.maximum(terms, jnp.square(held - target) / 2)
  metrics = {'value': value, 'value_target': target, 'value_error': jnp.abs(value - target)}
  return terms, jax.lax.stop_gradient(jax.tree.map(lambda x: groups.zero_off(x, mask), metrics))
