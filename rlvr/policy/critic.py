"""Critics: the value of the state before each response token, kept beside the policy.

A critic's arrays live in params['critic'], so one pytree is sampled, trained,
saved and resumed; everything that is about the policy alone takes
`policy_share`. V of a token is read where the token is predicted, before it is
seen. Critics start at V = 0.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import spec
from rlvr import types
from rlvr.policy import layers

Array = jax.Array
Params = Any

CRITIC = 'critic'  # the key in params


class Critic(NamedTuple):
  """Pure functions of a critic's own params.

  Attributes:
    init: (policy params) -> params; no leaf shares a buffer with another.
    value: (params, out, rows, knobs) -> f32[n, T]; `out` is the policy's own
      output on the same rows.
  """

  init: Callable[[Params], Params]
  value: Callable[..., Array]


def none(policy: types.Policy) -> None:
  """No critic: advantages come from the rewards alone."""
  del policy


def value_head(policy: types.Policy) -> Critic:
  """V = w . normed(hidden) + b on the policy's last hidden state, which gets no gradient.

  Args:
    policy: its `score` gives `hidden` f32[n, T, d].

  Returns:
    A critic of d + 1 numbers: cheap, and only as good as what the policy's state
    tells; the policy's own updates move that state under it.

  Raises:
    ValueError: when scored, if the policy gives no hidden states.

  Source: PPO (arXiv 1707.06347), a shared trunk with its gradient cut.
  """
  del policy

  def init(params):
    return _head(params['final_norm'].shape[0])

  def value(params, out, rows, knobs):
    del rows, knobs
    if out.hidden is None:
      raise ValueError('value_head reads out.hidden, which this policy does not give; '
                       'use value_model.')
    return _read(params, jax.lax.stop_gradient(out.hidden))

  return Critic(init, value)


def value_model(policy: types.Policy, *, frozen: tuple[str, ...] = ()) -> Critic:
  """A second transformer of the policy's shape with a scalar head.

  Args:
    policy: its `score` runs the critic's own weights, which start as a copy of
      the policy's.
    frozen: names of weights of a layer that get no gradient, as ('qkv', 'o') for
      the attention; weight decay, if any, still moves them.

  Returns:
    A critic of as many numbers as the policy.

  Raises:
    ValueError: when scored, if `frozen` names no weight of a layer.

  Source: PPO (arXiv 1707.06347), separate networks; SAO (arXiv 2607.07508) for
  frozen attention, provenance: two re-implementations read, no official code.
  """

  def init(params):
    head = _head(params['final_norm'].shape[0])
    return {'trunk': jax.tree.map(jnp.copy, params), 'head': head}

  def value(params, out, rows, knobs):
    del out
    own = dict(params['trunk']['layers'])
    for name in frozen:
      own[name] = jax.lax.stop_gradient(spec.lookup(own, name, 'value_model: frozen'))
    trunk = params['trunk'] | {'layers': own}
    return _read(params['head'], policy.score(trunk, rows, knobs).hidden)

  return Critic(init, value)


def with_critic(policy: types.Policy, critic: Critic) -> types.Policy:
  """The policy whose `score` also fills `value`, where the params hold a critic.

  Params without one, such as anchors of the policy alone, are scored without.
  """

  def cast(params):
    # The scalar head stays f32: a value is compared with returns, not sampled from.
    own = {CRITIC: params[CRITIC]} if CRITIC in params else {}
    return policy.cast(policy_share(params)) | own

  def score(params, rows, knobs, *, anchors=None):
    out = policy.score(policy_share(params), rows, knobs, anchors=anchors)
    if CRITIC not in params:
      return out
    return out.replace(value=critic.value(params[CRITIC], out, rows, knobs))

  return policy._replace(cast=cast, score=score)


def policy_share(params: Params) -> Params:
  """The params without the critic's; what is no dict has none."""
  if not isinstance(params, dict):
    return params
  return {name: leaf for name, leaf in params.items() if name != CRITIC}


def _head(width):
  return {'weight': jnp.zeros(width), 'bias': jnp.zeros(())}


def _read(head, hidden):
  normed = layers.rms_norm(hidden.astype(jnp.float32), jnp.ones(hidden.shape[-1]), 1e-6)
  return normed @ head['weight'] + head['bias']


CRITICS = spec.make_table(none, value_head, value_model)
