"""IAPO: the card's numbers, that credit is moved and not made, and where it is GRPO."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import testing

# E+ = {(0,1), (0,2)}, E- = {(1,2)}, e = [0,1,0], u = [1,0,0]: columns d+, d_in, d-, e.
CARD = np.array([[2, 1, 0, 0], [0, 1, 1, 1], [0, 1, 0, 0]])
SIZES = (2, 1, 4)  # of the three actions of one row


def make(uses, rewards=(1., 0.), turn=(0, 1, 2), **fields):
  """One group, the same graph and turns on all rows."""
  num_rows = len(rewards)
  uses, turn = jnp.asarray(uses, jnp.int32), jnp.asarray(turn, jnp.int32)
  return testing.make_rollout(
      [list(rewards)], lengths=[len(turn)] * num_rows,
      turn=jnp.broadcast_to(turn, (num_rows, len(turn))),
      action_uses=jnp.broadcast_to(uses, (num_rows, *uses.shape)), **fields)


def weights(rollout, **options):
  """IAPO over GRPO on rows with an advantage."""
  return np.asarray(advantages.iapo(rollout, **options)
                    / advantages.grpo(rollout)[:, None])


def graphs(num, seed=0):
  """Random counts i32[num, 4, 4]."""
  rng = np.random.default_rng(seed)
  uses = rng.integers(0, 5, (num, 4, 4))
  uses[..., 3] = rng.integers(0, 2, (num, 4))
  return uses


class TestIapo:

  def test_worked(self):
    rollout = make(CARD)
    np.testing.assert_allclose(
        weights(rollout, beta=0.0),
        [[1.35559, .82221, .82221], [.82221, 1.35559, .82221]], atol=1e-5)
    np.testing.assert_allclose(
        weights(rollout), [[1.38093, .78149, .83758], [.82221, 1.35559, .82221]], atol=1e-5)

  def test_features(self):
    """phi+ = ln[4,2,2] and phi- = ln[1,4,1]: seen unclipped, w ~ exp(z)."""
    w = weights(make(CARD), beta=0.0, clip=10.0)
    for row, phi in zip(w, np.log([[4, 2, 2], [1, 4, 1]]), strict=True):
      expected = np.exp((phi - phi.mean()) / (phi.std() + 1e-6))
      np.testing.assert_allclose(row, expected / expected.mean(), rtol=1e-4)

  def test_actions_weigh_by_their_tokens(self):
    rollout = make(CARD, turn=np.repeat([0, 1, 2], SIZES))
    phi, size = np.log([4, 2, 2]), np.array(SIZES)
    mean = (size * phi).sum() / 7
    z = (phi - mean) / np.sqrt((size * (phi - mean)**2).sum() / 7)
    raw = np.exp(np.clip(z, -.25, .25))
    np.testing.assert_allclose(
        weights(rollout, beta=0.0)[0], np.repeat(raw * 7 / (size * raw).sum(), SIZES), rtol=1e-5)

  @pytest.mark.parametrize('options', [{}, dict(clip=3.0, beta=2.0), dict(beta=1e4)])
  def test_total_and_sign_are_kept(self, options):
    rng = np.random.default_rng(1)
    rollout = testing.make_rollout(
        [list(rng.uniform(size=8))], lengths=[6] * 8, turn=jnp.asarray(rng.integers(0, 4, (8, 6))),
        action_uses=jnp.asarray(graphs(8)))
    w = weights(rollout, **options)
    np.testing.assert_allclose(w.sum(1), 6, rtol=1e-5)
    assert (w >= 0).all() and ((w > 0).all() or options == dict(beta=1e4))  # e^-1e4 is 0 in f32

  def test_where_it_is_grpo(self):
    """Empty graph, equal features, one action, c and beta 0, and failure without an error."""
    for uses in (np.zeros((3, 4)), np.tile([2, 1, 3, 1], (3, 1))):
      np.testing.assert_allclose(weights(make(uses)), 1, atol=1e-5)
    np.testing.assert_allclose(weights(make(CARD, turn=[0, 0, 0])), 1, atol=1e-5)
    np.testing.assert_allclose(weights(make(CARD), clip=0.0, beta=0.0), 1, atol=1e-6)
    np.testing.assert_allclose(weights(make(CARD), clip=1e-5, beta=0.0), 1, atol=1e-4)
    np.testing.assert_allclose(weights(make(CARD * [1, 1, 1, 0]))[1], 1, atol=1e-5)
    alone = make(CARD[:1]).replace(turn=None)
    np.testing.assert_allclose(weights(alone), 1, atol=1e-5)

  @pytest.mark.parametrize('clip', [.125, .25, .5])
  def test_blame_is_bounded(self, clip):
    rollout = make(CARD, rewards=[0.] * 8 + [1.], turn=[0, 1, 2, 3])
    rollout = rollout.replace(extras={'action_uses': jnp.asarray(graphs(9))})
    w = weights(rollout, clip=clip)[:8]
    ratio = w.max(1) / w.min(1)
    assert (ratio <= np.exp(2 * clip) * (1 + 1e-5)).all() and ratio.max() > 1.1

  def test_observations_get_nothing_and_do_not_count(self):
    seen = make(CARD, turn=[0, 0, 0, 1, 1, 2], masks=[[1, 0, 0, 1, 0, 1]] * 2)
    result = np.asarray(advantages.iapo(seen))
    np.testing.assert_array_equal(result[:, [1, 2, 4]], 0)
    np.testing.assert_allclose(result[:, [0, 3, 5]], advantages.iapo(make(CARD)), rtol=1e-6)

  def test_an_action_without_tokens_leaves_the_means(self):
    uses = np.insert(CARD, 1, [9, 9, 9, 1], axis=0)
    np.testing.assert_allclose(
        advantages.iapo(make(uses, turn=[0, 2, 3])), advantages.iapo(make(CARD)), rtol=1e-6)

  def test_rows_are_apart_and_unknown_actions_get_nothing(self):
    rollout = make(CARD, turn=[0, 1, 2, 3, -1])
    np.testing.assert_array_equal(advantages.iapo(rollout)[:, 3:], 0)
    changed = rollout.extras['action_uses'].at[1].set(0)
    np.testing.assert_array_equal(
        advantages.iapo(rollout.replace(extras={'action_uses': changed}))[0],
        advantages.iapo(rollout)[0])

  def test_base(self):
    rollout = make(CARD)
    np.testing.assert_allclose(
        advantages.iapo(rollout, base=advantages.rloo)[0], weights(rollout)[0], rtol=1e-5)
    with pytest.raises(ValueError, match='base'):
      advantages.iapo(rollout, base=functools.partial(advantages.iapo))

  @pytest.mark.parametrize('option', [dict(clip=-.1), dict(beta=-1.), dict(beta=float('nan'))])
  def test_options(self, option):
    with pytest.raises(ValueError, match=f'iapo: {next(iter(option))}='):
      advantages.iapo(make(CARD), **option)

  def test_without_a_graph(self):
    with pytest.raises(ValueError, match='action_uses'):
      advantages.iapo(testing.make_rollout([[1., 0.]]))
