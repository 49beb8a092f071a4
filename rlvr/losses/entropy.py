"""The entropy bonus."""

import jax

from rlvr import groups
from rlvr import types

Array = jax.Array


def entropy_bonus(
    out: types.PolicyOutput, cell: types.Batch, knobs: dict[str, Array]
) -> tuple[Array, dict[str, Array]]:
  """-entropy per token: a positive coefficient keeps the policy random.

  Args:
    out: reads entropy f32[n, T] in nats, at the sampling temperature.
    cell: reads mask.
    knobs: not read.

  Returns:
    terms f32[n, T], at most 0, 0 off the mask; metrics entropy.
  """
  del knobs
  entropy = groups.zero_off(out.entropy, cell.mask)
  return -entropy, {'entropy': jax.lax.stop_gradient(entropy)}
