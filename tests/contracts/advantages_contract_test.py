"""Every entry of ADVANTAGES and TRANSFORMS passes its stage's contract."""

import functools

import jax.numpy as jnp
import pytest

from rlvr import advantages
from rlvr import contracts

# Settings other than the defaults that take another way through a part.
VARIANTS = {
    'reinforce_pp': dict(coef=0.0, discount=0.5),
    'mc_grpo': dict(fallback='std'),
    'gdpo': dict(level='token'),
    'factorized_reward': dict(route=((1.0,), (0.5,)), split_token=3),
    'arc': dict(label='label', singleton='prompt', between=0.5),
    'eapo': dict(decay_steps=10),
    'overthinking': dict(norm='reward', start_step=1, end_step=9),
    'v0_5': dict(variance='null', low=0.0),
    'cliff': dict(prefix_weight=0.5),
    'rtmc': dict(kappa=0.0, scale='std'),
}


def with_extras(part):
  """part, on rollouts that hold the extras that parts read."""
  def on(rollout):
    extras = {
        'step': jnp.full(rollout.where.shape, 5, jnp.int32),
        'prior': jnp.where(rollout.where, 0.25, jnp.nan),
        'segment': jnp.zeros(rollout.tokens.shape, jnp.int32),
        'label': rollout.tokens[:, 0] % 2,
        'first_error': rollout.tokens[:, 0] % 5 - 1,
        'trusted': rollout.group % 2 == 0,
        'state_id': rollout.tokens[:, :1] % 2,
        'action_id': rollout.tokens[:, :1] % 3,
    }
    return part(rollout.replace(extras=rollout.extras | extras))
  return on


@pytest.mark.parametrize('name', advantages.ADVANTAGES)
def test_advantage(name):
  contracts.check_advantage(with_extras(advantages.ADVANTAGES[name]))


@pytest.mark.parametrize('name', VARIANTS)
def test_advantage_with_other_options(name):
  part = functools.partial(advantages.ADVANTAGES[name], **VARIANTS[name])
  contracts.check_advantage(with_extras(part))


@pytest.mark.parametrize('name', advantages.TRANSFORMS)
def test_transform(name):
  contracts.check_transform(advantages.TRANSFORMS[name])


def test_group_baselines_are_entries():
  assert advantages.GROUP_BASELINES <= set(advantages.ADVANTAGES)
