"""A policy whose parameters are the log-probs of each row's tokens, for tests of the step.

Plain gradient descent at rate 1 on it moves each log-prob by minus the gradient
of the objective with respect to it, so a test reads per-token gradients off.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlvr import advantages
from rlvr import aggregate
from rlvr import corrections
from rlvr import losses
from rlvr import masks
from rlvr import rewards
from rlvr import selection
from rlvr import testing
from rlvr import types
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import update


def score(params, rows, knobs, *, anchors=None):
  """Log-probs of `params` at the row numbers that travel in extras['row']."""
  del knobs, anchors
  logp = params['logp'][rows.extras['row']][:, :rows.tokens.shape[1]]
  return types.PolicyOutput(logp=logp, entropy=jnp.full(logp.shape, 0.5))


POLICY = types.Policy(init=None, cast=lambda params: params, score=score, prefill=None,
                      init_cache=None, decode_step=None)


def make_rollout(rewards_, **options):
  """testing.make_rollout as it comes from the sampler: nothing scored, row numbers in extras."""
  rollout = testing.make_rollout(rewards_, **options)
  rows = jnp.arange(rollout.where.shape[0])
  return rollout.replace(
      old_logp=None, ref_logp=None, value=None, entropy=None, extras={'row': rows})


def make_state(rollout, *, optimizer=None, seed=3, knobs=None, anchors=None):
  rng = np.random.default_rng(seed)
  logp = -rng.uniform(0.1, 2.0, rollout.tokens.shape).astype(np.float32)
  params = {'logp': jnp.asarray(logp)}
  optimizer = optimizer or optax.sgd(1.0)
  return types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optimizer.init(params),
      anchors=anchors or {}, method={},
      knobs={name: jnp.float32(x) for name, x in (knobs or {'coef_pg': 1.0}).items()},
      key=jax.random.key(0))


def make_recipe(*, loss=losses.policy_gradient, weigh=aggregate.token_mean, terms=None, **changes):
  """GRPO's parts around one term, 'pg'."""
  recipe = prepare.Recipe(
      reward=rewards.outcome, advantage=advantages.dr_grpo, transforms=(),
      selection=selection.keep_all, correction=corrections.none,
      terms=terms or {'pg': prepare.Term(loss, masks.policy_tokens, weigh)}, advantage_only=True,
      score_old=False, score_ref=False, score_first=False, minibatches=1)
  return recipe._replace(**changes)


def make_layout(*, devices=1, num_cells=4, rows=8, prompts=4, spans=(2, 4, 8)):
  return cells.Layout(devices=devices, cells=num_cells, rows=rows, prompts=prompts, spans=spans)


def gradient(rollout, recipe, layout, state=None, policy=POLICY):
  """d objective / d logp as one step of descent shows it, the metrics of both stages, rollout."""
  state = state or make_state(rollout)
  batches, rollout, metrics = jax.jit(prepare.make_prepare(recipe, policy, layout))(
      rollout, state)
  step = jax.jit(update.make_update(policy, recipe.terms, optax.sgd(1.0), layout))
  new = state
  for batch in batches:
    new, measured = step(new, batch)
    metrics = metrics | measured
  moved = np.asarray(state.params['logp'] - new.params['logp'], np.float64)
  return moved, {name: float(x) for name, x in metrics.items()}, rollout
