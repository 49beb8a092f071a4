"""Every entry of ADVANTAGES and TRANSFORMS passes its stage's contract."""

import functools

import jax.numpy as jnp
import pytest

from rlvr import advantages
from rlvr import contracts
from rlvr import groups
from rlvr import types
from rlvr.advantages import trajectories

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
    'semi_online': dict(episode='row', discount=0.0),
    'echo_memory': dict(scope='all', low=0.5),
    'iapo': dict(clip=2.0, beta=100.0),
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
        'step_index': rollout.tokens[:, 0] % 3,
        'match': rollout.tokens[:, 0] % 2,
        'token_kind': rollout.tokens % 5,
        'chosen': rollout.tokens[:, :, None] % 3 - 1,
        'boundaries': rollout.tokens[:, 0] % 3,
        'action_uses': rollout.tokens[:, :2, None] % jnp.array([[[4, 3, 2, 2]]]),
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


def in_steps(part):
  """part, on rollouts whose groups are two trajectories, their steps numbered."""
  def on(rollout):
    rollout = rollout.replace(
        trajectory=(rollout.reward > 0.5).astype(jnp.int32), turn=rollout.tokens % 3)
    step = groups.rank(
        rollout.old_logp[:, 0], trajectories.trajectory_ids(rollout), types.graded(rollout))
    return part(rollout.replace(
        extras=rollout.extras | {'step_index': step.astype(jnp.int32)}))
  return on


@pytest.mark.parametrize('name', ['semi_online', 'echo_memory'])
def test_advantage_over_trajectories(name):
  contracts.check_advantage(with_extras(in_steps(advantages.ADVANTAGES[name])))


@pytest.mark.parametrize('name', advantages.TRANSFORMS)
def test_transform(name):
  contracts.check_transform(advantages.TRANSFORMS[name])


def test_group_baselines_are_entries():
  assert advantages.GROUP_BASELINES <= set(advantages.ADVANTAGES)
