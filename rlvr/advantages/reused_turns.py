"""Contexts rebuilt from chosen turns: credit for what the final trace reused, by ECHO.

Between two compressions of its context a trajectory is one row with a prompt of its
own (rlvr/host/turn_memory.py rebuilds it). Rows of one `trajectory` carry the same
reward and the same choices:

  turn                  i32[B, T], the turn of a token; of a selection its boundary
  extras['token_kind']  i32[B, T], ENVIRONMENT, ACTION, FINDING, SELECTION or ANSWER
  extras['chosen']      i32[B, C, K], the turns chosen at each boundary, -1 for none
  extras['boundaries']  i32[B], how many of the C boundaries the trajectory had
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import trajectories

Array = jax.Array

ENVIRONMENT, ACTION, FINDING, SELECTION, ANSWER = range(5)


def trace_credit(
    kind: Array, turn: Array, chosen: Array, boundaries: Array, *, scope: str = 'last',
    low: float = 0.0,
) -> Array:
  """1 on what led to the answer through the turns that were chosen, `low` on the rest.

  1 on answer tokens, on actions and findings of the turns chosen at the boundaries in
  scope, and on the selections at those boundaries. One hop: what the chosen turns
  themselves relied on is not followed.

  Args:
    kind, turn: i32[B, T].
    chosen: i32[B, C, K].
    boundaries: i32[B].
    scope: 'last' boundary or 'all'.
    low: weight of other trained tokens, in [0, 1].

  Returns:
    f32[B, T]; 0 on the environment's tokens. A trajectory without boundaries has no
    trace: 1 on every trained token (ours).

  Raises:
    ValueError: an option out of range.
  """
  if scope not in ('last', 'all'):
    raise ValueError(f"echo_memory: scope={scope!r} must be 'last' or 'all'.")
  if not 0 <= low <= 1:
    raise ValueError(f'echo_memory: low={low} must lie in [0, 1].')
  number = jnp.arange(chosen.shape[1])[None]
  first = boundaries[:, None] - 1 if scope == 'last' else 0
  counts = (number >= first) & (number < boundaries[:, None])  # [B, C]
  same = turn[:, :, None, None] == chosen[:, None]  # [B, T, C, K]
  source = jnp.any(same & counts[:, None, :, None] & (chosen >= 0)[:, None], axis=(2, 3))
  asked = jnp.any((turn[:, :, None] == number[:, None]) & counts[:, None], axis=2)
  credited = (
      (kind == ANSWER) | ((kind == SELECTION) & asked)
      | (((kind == ACTION) | (kind == FINDING)) & source) | (boundaries[:, None] == 0))
  return jnp.where(kind == ENVIRONMENT, 0.0, jnp.where(credited, 1.0, low))


def token_credit(rollout: types.Rollout, *, scope: str = 'last', low: float = 0.0) -> Array:
  """f32[B, T]: `trace_credit` from the rollout's fields; 0 off the mask and off `where`.

  `turn` None is turn 0 for all tokens.

  Raises:
    ValueError: an option out of range, or an extra is missing.
  """
  kind, chosen, boundaries = (
      inputs.extra(rollout, key, 'echo_memory') for key in ('token_kind', 'chosen', 'boundaries'))
  turn = jnp.zeros_like(kind) if rollout.turn is None else rollout.turn
  credit = trace_credit(kind, turn, chosen, boundaries, scope=scope, low=low)
  return groups.zero_off(credit, rollout.where[:, None] & (rollout.mask != 0))


def echo_memory(
    rollout: types.Rollout, *, base=group_relative.grpo, scope: str = 'last', low: float = 0.0
) -> Array:
  """A_tok = max(A, 0) * credit: a failure gives no update, a success only to its trace.

  Args:
    rollout: reads trajectory, turn, mask, the extras above and what `base` reads. All
      rows of a trajectory, and all trajectories of a group, must be in the batch.
    base: the advantage over trajectories, one number each.
    scope: 'last' boundary or 'all', see `trace_credit`.
    low: credit of the other trained tokens; 1 is dense, positive-only credit.

  Returns:
    f32[B, T], at least 0; 0 off the mask and on ungraded rows. Nothing pushes a bad
    answer down: watch the entropy and use a KL term. Average it over the tokens of
    mask `credited_tokens`, of all trajectories, the failed ones too.

  Raises:
    ValueError: an option out of range, an extra is missing, or base gives one
      advantage a token.

  Source: ECHO: Prune to act, trace to learn with selective turn memory in agentic RL
  (arXiv 2606.31650). Provenance: official README read; paper body and training code
  not. Reconstructed: the packing rule, the scope when there are several
  compressions, the fallback without one.
  """
  credit = token_credit(rollout, scope=scope, low=low)
  advantage = trajectories.over_trajectories(rollout, base)
  return jnp.maximum(advantage, 0.0)[:, None] * credit
