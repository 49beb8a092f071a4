"""Wrappers of the update: how a step is taken, whatever its loss.

A wrapper is (step) -> Update, where `step` is (state, batch, *, axis_name=None) ->
(state, metrics), as update.make_update gives it. It needs the gradient again at
other parameters, so it cannot be a link of an optax chain. What it remembers
lies in state.method.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import spec
from rlvr import types

Array = jax.Array

SFPO = 'sfpo'  # the key in state.method


class Update(NamedTuple):
  """init: (state) -> state with the wrapper's arrays; step: as make_update's."""

  init: Callable[[types.TrainState], types.TrainState]
  step: Callable[..., tuple[types.TrainState, dict[str, Array]]]


def plain(step: Callable[..., tuple[types.TrainState, dict[str, Array]]]) -> Update:
  """The step itself."""
  return Update(lambda state: state, step)


def sfpo(
    step: Callable[..., tuple[types.TrainState, dict[str, Array]]],
    *,
    fast_steps: int = 3,
    alpha: float = 0.8,
    window: int = 30,
    threshold: float = 1.0,
    two_sided: bool = True,
) -> Update:
  """K fast steps on the batch, reposition towards the start, one slow step.

  With theta the parameters at the start and U the step: (I) theta_K = U applied K
  times, (II) theta_r = theta + alpha (theta_K - theta), (III) theta' =
  U(theta_r). Only parameters are repositioned; the optimiser runs on through
  all K + 1 updates. old_logp stays that of the start, so a clip still measures
  from the policy that sampled.

  Once the newest of the last `window` entropies lies `threshold` of their
  standard deviations from their mean, alpha is 0 for the rest of the run, and so is
  the number of fast steps: running and discarding them would move the moments.

  Args:
    step: one update of all the batch's rows; old_logp must be scored.
    fast_steps: K; 0 is the plain step.
    alpha: in [0, 1]; 1 is K + 1 updates in a row, 0 the plain step.
    window: w, entropies; fewer recorded ones latch nothing.
    threshold: tau, above 0, in standard deviations (ddof 0).
    two_sided: a fall latches too, as in the paper's note; the official code has
      a rise alone.

  Returns:
    An Update. If a fast step is not taken (a gradient that is not finite), the
    step is the plain one, from the start with its optimiser. Metrics are those
    of the slow step, and sfpo_alpha, the alpha that was used.

  Raises:
    ValueError: an option is out of range.

  Source: SFPO (arXiv 2510.04072). Provenance: official code read (Urheen/SFPO);
  a paper note with equations. There, a fast step is a pass over the minibatches
  and the rate's schedule ticks once a step; here it is one update of the whole
  batch, and each of the K + 1 counts. A trending entropy has |z| near 1.7, so
  with the official numbers the latch falls soon after `window` steps.
  """
  if fast_steps < 0 or window < 1:
    raise ValueError(f'sfpo: fast_steps={fast_steps} must be at least 0 and window={window} '
                     'at least 1.')
  if not 0 <= alpha <= 1 or threshold <= 0:
    raise ValueError(f'sfpo: alpha={alpha} must lie in [0, 1] and threshold={threshold} above 0.')
  most = fast_steps if alpha else 0

  def init(state):
    latch = {'entropies': jnp.zeros(window), 'recorded': jnp.zeros((), jnp.int32),
             'fell': jnp.zeros((), bool)}
    return state.replace(method=state.method | {SFPO: latch})

  def whole(state, batch, *, axis_name=None):
    latch = state.method[SFPO]
    num_fast = jnp.where(latch['fell'], 0, most)

    def fast(i, carry):
      now, taken, entropy = carry
      now, metrics = step(now, batch, axis_name=axis_name)
      # The entropy of the policy that sampled is that of the first.
      return (now, taken & (metrics['skipped'] == 0),
              jnp.where(i == 0, metrics['entropy'], entropy))

    moved, taken, entropy = jax.lax.fori_loop(
        0, num_fast, fast, (state, jnp.ones((), bool), jnp.zeros(())))
    use = taken & (num_fast > 0)
    pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(use, a, b), new, old)
    start = state.replace(
        params=pick(_between(state.params, moved.params, alpha), state.params),
        opt_state=pick(moved.opt_state, state.opt_state))
    new, metrics = step(start, batch, axis_name=axis_name)
    entropy = jnp.where(num_fast > 0, entropy, metrics['entropy'])
    # A batch without rows has no entropy.
    latch = jax.tree.map(lambda a, b: jnp.where(metrics['trained_rows'] > 0, a, b),
                         _latched(latch, entropy, threshold, two_sided), latch)
    metrics['sfpo_alpha'] = jnp.where(use, alpha, 0.0)
    return new.replace(method=new.method | {SFPO: latch}), metrics

  return Update(init, whole)


def entropy_z(entropies: Array) -> Array:
  """f32[]: (newest - mean) / (std + 1e-9) of f32[w], the newest last; 0 if all are equal."""
  # Less the newest first: f32 sums of equal values miss their mean by an ulp.
  centred = entropies - entropies[-1]
  return -jnp.mean(centred) / (jnp.std(centred) + 1e-9)


def _latched(latch, entropy, threshold, two_sided):
  entropies = jnp.concatenate([latch['entropies'][1:], entropy[None]])
  recorded = latch['recorded'] + 1
  z = entropy_z(entropies)
  far = (jnp.abs(z) if two_sided else z) >= threshold
  fell = latch['fell'] | (far & (recorded >= entropies.shape[0]))
  return {'entropies': entropies, 'recorded': recorded, 'fell': fell}


def _between(start, end, alpha):
  """(1 - alpha) start + alpha end, exact at both ends; of integer leaves the end."""
  mix = lambda a, b: (1 - alpha) * a + alpha * b
  return jax.tree.map(
      lambda a, b: mix(a, b) if jnp.issubdtype(a.dtype, jnp.floating) else b, start, end)


UPDATES = spec.make_table(plain, sfpo)

# Updates that use a batch more than once, so that old log-probs must be scored.
REUSES_BATCH = frozenset({'sfpo'})
