"""A trajectory's advantage, routed to the actions that others built on: IAPO."""

import math

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import reweight

Array = jax.Array


def iapo(
    rollout: types.Rollout, *, base=group_relative.grpo, clip: float = 0.25, beta: float = 0.05
) -> Array:
  """A_t = A * w of the action that a token belongs to, w from the rollout's own influence graph.

  With d+ the later actions that an action supports, d_in the inputs that it consumes,
  d- the later actions that its failure costs, and e = 1 for an observable error,

    phi+ = log(1 + d+ + d_in)       phi- = log(1 + e (1 + d- + d_in))
    m    = exp(clip(z, -c, c)),     z = (phi - mean phi) / (std phi + 1e-6)
    w    = m+ exp(-beta (phi- - mean phi-))   where A > 0, a repaired error earns less
    w    = m-                                 where A < 0, errors alone are blamed

  Means and the population std weigh an action by its trained tokens; w is then scaled
  to mean 1 over the trained tokens of the row. As z has unit scale and c is small most
  z are clipped: weights are nearly two-valued, e^(2c) apart.

  Args:
    rollout: one row a trajectory; reads mask, graded, where, what `base` reads, turn
      i32[B, T] (the action of each token; None: all of action 0) and
      extras['action_uses'] i32[B, K, 4], the counts d+, d_in, d-, e of each action,
      0 where there is none (rlvr/host/influence_graph.py fills it).
    base: an advantage of one number a response.
    clip: c, at least 0; 0 with beta=0 is `base`. A narrow optimum in the paper: half of
      it loses most of the gain over GRPO, twice it transfers worse.
    beta: the cost of an error in a success, at least 0.

  Returns:
    f32[B, T]; 0 off the mask, on ungraded rows and on tokens of no action. A row's sum
    over its tokens stays A * length, and no sign flips. An empty graph, equal
    features, a sole action, and for A < 0 no error, give w = 1.

  Raises:
    ValueError: an option out of range, no counts, or base gives token advantages.

  Source: IAPO: Influence-Aware Policy Optimization for Credit Assignment in Multi-Turn
  Service Agents (arXiv 2608.24588). Provenance: method and experiments read,
  appendices (proofs, prompts) not.
  """
  for name, value in (('clip', clip), ('beta', beta)):
    if not (math.isfinite(value) and value >= 0):
      raise ValueError(f'iapo: {name}={value} must be finite and at least 0.')
  advantages = base(rollout)
  if advantages.ndim != 1:
    raise ValueError('iapo: base must give one advantage a response, not one a token.')
  supports, consumed, failures, error = jnp.moveaxis(
      inputs.extra(rollout, 'action_uses', 'iapo').astype(jnp.float32), -1, 0)
  useful = jnp.log(1 + supports + consumed)
  harmful = jnp.log(1 + error * (1 + failures + consumed))

  turn = jnp.zeros(rollout.tokens.shape, jnp.int32) if rollout.turn is None else rollout.turn
  known = (turn >= 0) & (turn < useful.shape[1])
  tokens = types.graded(rollout)[:, None] & (rollout.mask != 0) & known
  on_tokens = lambda phi: jnp.take_along_axis(phi, jnp.where(known, turn, 0), axis=1)
  useful, harmful = on_tokens(useful), on_tokens(harmful)
  exponent = jnp.where(
      advantages[:, None] > 0,
      _bounded(useful, tokens, clip) - beta * _centred(harmful, tokens),
      _bounded(harmful, tokens, clip))
  return jax.lax.stop_gradient(
      advantages[:, None] * reweight.exponential(exponent, tokens))


def _centred(phi, tokens):
  return phi - groups.row_mean(phi, tokens)[:, None]


def _bounded(phi, tokens, clip):
  """clip(z, -c, c); statistics over tokens weigh each action by its length."""
  centred = _centred(phi, tokens)
  std = jnp.sqrt(groups.row_mean(jnp.square(centred), tokens))[:, None]
  return jnp.clip(centred / (std + 1e-6), -clip, clip)
