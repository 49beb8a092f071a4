"""Whose weights score `old_logp`, the proximal policy that a ratio measures from.

The weights at the start of the step (`current`), their moving average (`ewma`),
or the very version that sampled each token (`snapshots`). The last two are kept
by memories of the same name.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import memory
from rlvr import types
from rlvr.policy import critic

Array = jax.Array

EWMA, SNAPSHOTS = 'ewma', 'snapshots'


class OldPolicy(NamedTuple):
  """A source of old log-probabilities.

  Attributes:
    logp: (score, version, state) -> f32 of version's shape; `score` gives the
      log-probabilities of all tokens under some params.
    known: (version, state) -> bool of version's shape: the token's policy is
      there. Where it is not, the token is dropped by a correction of 0, never
      scored by another policy. None: it always is.
  """

  logp: Callable[[Callable, Array, types.TrainState], Array]
  known: Callable[[Array, types.TrainState], Array] | None = None


def ewma(*, window: int = 4, reset_below: float = 0.9) -> memory.Memory:
  """anchors['ewma'] = sum_k b^(t-k) theta(k) / sum_k b^(t-k), b = W / (W + 2).

  The mean age of the average tends to W / 2, the middle of a staleness window of
  W versions. After a step in which less than `reset_below` of the trained tokens
  were active it starts again from the present weights.

  Args:
    window: W, versions; 0 is the present weights.
    reset_below: tau, in [0, 1]; the metric `active` of the step's last update is
      compared with it, strictly; a step without rows to train resets nothing.

  Returns:
    A memory; one more copy of the policy's weights (a critic is not averaged).

  Raises:
    ValueError: an option is out of range, or, in a step, no loss term reports
      `active`.

  Source: exact old logits and revised PPO-EWMA (arXiv 2605.12070); PPO-EWMA
  (arXiv 2110.00641). Provenance: a third-party article read; the second from
  knowledge. The average is kept normalised with its total weight beside it,
  which is the same as a sum and its weight. `active` covers the rows that are
  computed, so groups without advantage do not dilute it.
  """
  if window < 0 or not 0 <= reset_below <= 1:
    raise ValueError(
        f'ewma: window={window} must be at least 0 and reset_below={reset_below} in [0, 1].')
  decay = window / (window + 2)

  def init(state, num_prompts):
    del num_prompts
    average = jax.tree.map(jnp.copy, critic.policy_share(state.params))
    return state.replace(anchors=state.anchors | {EWMA: average},
                         method=state.method | {EWMA: jnp.ones(())})

  def write(state, rollout, metrics):
    del rollout
    if 'active' not in metrics:
      raise ValueError('ewma reads the metric active, which no loss term reports; use '
                       'losses.surrogate.')
    reset = (metrics['active'] < reset_below) & (metrics['trained_rows'] > 0)
    past = jnp.where(reset, 0.0, decay * state.method[EWMA])
    average = jax.tree.map(
        lambda old, new: (past * old + new) / (past + 1) if _floating(new) else new,
        state.anchors[EWMA], critic.policy_share(state.params))
    return state.replace(anchors=state.anchors | {EWMA: average},
                         method=state.method | {EWMA: past + 1})

  return memory.Memory(init, memory.unchanged, write)


def snapshots(*, keep: int = 2) -> memory.Memory:
  """anchors['snapshots']: the policy of the last `keep` versions, the present one included.

  Args:
    keep: K, copies of the weights, at least 1: the largest staleness plus one.

  Returns:
    A memory; params with a leading axis K, method['snapshots'] i32[K] their
    versions, -1 where there is none yet.

  Raises:
    ValueError: keep is below 1.

  Source: exact old logits and revised PPO-EWMA (arXiv 2605.12070), exact by
  snapshots. Provenance: a third-party article read.
  """
  if keep < 1:
    raise ValueError(f'snapshots: keep={keep} must be at least 1.')

  def init(state, num_prompts):
    del num_prompts
    held = jax.tree.map(lambda x: jnp.stack([x] * keep), critic.policy_share(state.params))
    versions = jnp.full(keep, -1, jnp.int32).at[state.step % keep].set(state.step)
    return state.replace(anchors=state.anchors | {SNAPSHOTS: held},
                         method=state.method | {SNAPSHOTS: versions})

  def write(state, rollout, metrics):
    del rollout, metrics
    slot = state.step % keep
    held = jax.tree.map(lambda old, new: old.at[slot].set(new), state.anchors[SNAPSHOTS],
                        critic.policy_share(state.params))
    versions = state.method[SNAPSHOTS].at[slot].set(state.step)
    return state.replace(anchors=state.anchors | {SNAPSHOTS: held},
                         method=state.method | {SNAPSHOTS: versions})

  return memory.Memory(init, memory.unchanged, write)


def _own_version(score, version, state):
  """Each token's log-probability under the snapshot that wrote it; 0 where it is gone."""
  def one(logp, item):
    params, held = item
    mine = (version == held) & (held >= 0)
    # A snapshot that wrote no token of the batch is not scored.
    logp = jax.lax.cond(jnp.any(mine), lambda: jnp.where(mine, score(params), logp), lambda: logp)
    return logp, None

  blank = jnp.zeros(version.shape, jnp.float32)
  return jax.lax.scan(one, blank, (state.anchors[SNAPSHOTS], state.method[SNAPSHOTS]))[0]


def _is_held(version, state):
  return jnp.isin(version, state.method[SNAPSHOTS]) & (version >= 0)


def _floating(x):
  return jnp.issubdtype(x.dtype, jnp.floating)


CURRENT = OldPolicy(lambda score, version, state: score(state.params))

# By config.score_old.
OLD_POLICIES = {
    'auto': CURRENT,
    'always': CURRENT,
    EWMA: OldPolicy(lambda score, version, state: score(state.anchors[EWMA])),
    SNAPSHOTS: OldPolicy(_own_version, _is_held),
}
