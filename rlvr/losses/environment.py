"""Learning what the environment answers: ECHO."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types

Array = jax.Array

_LEAST_LOGP = -1e4  # an impossible token is a finite loss, without gradient


def echo_env(
    out: types.PolicyOutput, cell: types.Batch, knobs: dict[str, Array]
) -> tuple[Array, dict[str, Array]]:
  """-logp of the observation tokens, beside any policy loss.

    L = L_RL + coef * sum over kept observation tokens of -logp / Z

  Z counts all observation tokens, the dropped ones too, so that dropping some does
  not make the others louder: the mask (`masks.observed_tokens`) sets the divisor, a
  gate drops. No ratio, no clip, no advantage; stale rows need no correction.

  Args:
    out: reads logp f32[n, T] of every real token, the environment's too.
    cell: reads weights (the term's own) and, where there is one, extras['drop']
      [n, T]: not 0 on text that the harness wrote, not the world.
    knobs: not read; the coefficient is 0.05 in the paper.

  Returns:
    terms f32[n, T], 0 where the weight is 0; metrics observation_nll.

  Source: ECHO: Terminal Agents Learn World Models for Free (arXiv 2605.24517).
  Provenance: abstract, a review and two independent implementations read; official
  code not seen. Not the same as echo_memory.
  """
  del knobs
  (weight,) = cell.weights.values()
  kept = weight != 0
  if 'drop' in cell.extras:
    kept &= cell.extras['drop'] == 0
  nll = groups.zero_off(-jnp.maximum(out.logp, _LEAST_LOGP), kept)
  return nll, {'observation_nll': jax.lax.stop_gradient(nll)}
