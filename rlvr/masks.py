"""Which tokens a loss term acts on: (rollout) -> f32[B, T] of 0 and 1.

A term's mask shrinks the divisors of its aggregate. Rows that hold no response
are 0 in every entry.
"""

import jax
import jax.numpy as jnp

from rlvr import spec
from rlvr import types

Array = jax.Array


def policy_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: tokens that the policy wrote and that may be trained (`rollout.mask`)."""
  return jnp.where(rollout.where[:, None], (rollout.mask != 0).astype(jnp.float32), 0.0)


def environment_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: real tokens that the policy may not train on, such as tool output."""
  other = rollout.valid & (rollout.mask == 0)
  return (other & rollout.where[:, None]).astype(jnp.float32)


def valid_tokens(rollout: types.Rollout) -> Array:
  """f32[B, T]: every real token of the response block."""
  return (rollout.valid & rollout.where[:, None]).astype(jnp.float32)


MASKS = spec.make_table(policy_tokens, environment_tokens, valid_tokens)
