"""ReMix's memories: the last policy, and the turn from mixed-policy to on-policy training."""

import jax
import jax.numpy as jnp

from rlvr import memory
from rlvr.replay import compose

LAST, NOW = 'prev', 'prev_next'  # anchors


def last_policy() -> memory.Memory:
  """Keeps anchors['prev'], the policy that the step before started from: pi_{k-1} in step k.

  At step 0 it is the initial policy. Two copies of the params, since the
  start of a step is gone once its updates are taken.

  Source: Squeeze the Soaked Sponge (arXiv 2507.06892), ReMix. Provenance: a
  detailed third-party note read; reconstructed.
  """

  def init(state, num_prompts):
    del num_prompts
    copies = {name: jax.tree.map(jnp.copy, state.params) for name in (LAST, NOW)}
    return state.replace(anchors=state.anchors | copies)

  def write(state, rollout, metrics):
    del rollout, metrics
    kept = {LAST: state.anchors[NOW], NOW: jax.tree.map(jnp.copy, state.params)}
    return state.replace(anchors=state.anchors | kept)

  return memory.Memory(init, memory.unchanged, write)


def reincarnation(*, at: int = 50) -> memory.Memory:
  """At step `at`: base <- params, the store emptied, no more replay, one pass a batch.

  anchors['ref'] (where the run has one) becomes the policy after `at` steps,
  state.method['replay'] (likewise) is emptied, and the knobs replay_share and epochs
  become 0 and 1. All else, the optimiser and lambda of kl_convex among it, goes on.

  Args:
    at: T, finished steps; 0 is on-policy from the start, beyond the run never.

  Raises:
    ValueError: at is negative.

  Source: Squeeze the Soaked Sponge (arXiv 2507.06892), ReMix. Provenance: a
  detailed third-party note read; reconstructed.
  """
  if at < 0:
    raise ValueError(f'reincarnation: at={at} must be at least 0 steps.')

  def turn(state, now):
    pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(now, a, b), new, old)
    after = {compose.SHARE: jnp.zeros(()), 'epochs': jnp.ones(())}
    anchors, method = dict(state.anchors), dict(state.method)
    if 'ref' in anchors:
      anchors['ref'] = pick(state.params, anchors['ref'])
    if compose.JOIN in method:
      store = method[compose.JOIN]
      method[compose.JOIN] = pick(jax.tree.map(jnp.zeros_like, store), store)
    knobs = state.knobs | {name: jnp.where(now, x, state.knobs[name]) for name, x in after.items()}
    return state.replace(anchors=anchors, method=method, knobs=knobs)

  def init(state, num_prompts):
    del num_prompts
    return turn(state, at == 0)

  def write(state, rollout, metrics):
    del rollout, metrics
    return turn(state, state.step == at)

  return memory.Memory(init, memory.unchanged, write)
