"""Every entry of LOSSES passes its stage's contract, with every factor in its slot."""

import functools

import jax.numpy as jnp
import pytest

from rlvr import contracts
from rlvr import losses


def _with_anchors(out, cell):
  """Hidden states, NaN off the mask, and the weight of one token a row, of three rows."""
  weight = jnp.zeros_like(cell.mask).at[[0, 1, 3], [1, 2, 0]].set(1 / 3)
  hidden = jnp.where(cell.mask[..., None] != 0, jnp.arange(24.).reshape(4, 3, 2) - 9, jnp.nan)
  return out.replace(hidden=hidden), cell.replace(weights={'loss': weight})


def _with_draws(out, cell):
  """Two draws a token, NaN off the mask."""
  both = jnp.stack([out.logp - .1, cell.ref_logp], axis=-1)
  return out.replace(query_logp=both), cell.replace(
      reward=jnp.array([1., 0, jnp.nan, 1]),
      extras={'mc_rollout_logp': both[..., ::-1]})


# Fields that a term reads beyond those of the plain case.
EDITS = {
    'hidden_align': _with_anchors,
    'value_loss': lambda out, cell: (
        out.replace(value=out.entropy), cell.replace(value=cell.ref_logp)),
    'conspo': lambda out, cell: (out, cell.replace(
        reward=jnp.array([1., 0, jnp.nan, 1]), extras={'step': jnp.array([0, 5, 50, 500])})),
    'klpo': _with_draws,
    'mix_ppg': lambda out, cell: (out, cell.replace(gen_logp=cell.rollout_logp)),
    'kl_convex': lambda out, cell: (out, cell.replace(extras={
        'prev_logp': cell.rollout_logp, 'step': jnp.array([0, 55, 70, 500])})),
}


@pytest.mark.parametrize('name', losses.LOSSES)
def test_loss(name):
  contracts.check_loss(losses.LOSSES[name], advantage_only=name in losses.ADVANTAGE_ONLY,
                       edit=EDITS.get(name, lambda out, cell: (out, cell)))


@pytest.mark.parametrize('options', [
    dict(route='sequence'), dict(estimator='binary'),
    dict(route='sequence', estimator='binary')], ids=str)
def test_klpo_with_other_options(options):
  contracts.check_loss(functools.partial(losses.klpo, **options), edit=_with_draws)


@pytest.mark.parametrize('name', losses.RATIOS)
def test_ratio(name):
  part = functools.partial(losses.surrogate, ratio=losses.RATIOS[name])
  contracts.check_loss(part, advantage_only=True)


@pytest.mark.parametrize('name', losses.CLIPS)
def test_clip(name):
  part = functools.partial(losses.surrogate, clip=losses.CLIPS[name])
  contracts.check_loss(part, advantage_only=True)


@pytest.mark.parametrize('name', losses.WEIGHTS)
def test_weight(name):
  part = functools.partial(losses.score_function, weight=losses.WEIGHTS[name])
  contracts.check_loss(part, advantage_only=True)


@pytest.mark.parametrize('name', losses.KL_ESTIMATORS)
def test_estimator(name):
  contracts.check_loss(functools.partial(losses.kl_loss, estimator=losses.KL_ESTIMATORS[name]))


def test_advantage_only_are_entries():
  assert losses.ADVANTAGE_ONLY <= set(losses.LOSSES)


def test_critic_terms_are_entries():
  assert losses.CRITIC_TERMS <= set(losses.LOSSES)
