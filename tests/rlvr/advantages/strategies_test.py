"""ARC: comparison inside a strategy, what lies between strategies, and the variances it removes."""

import functools

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import losses
from rlvr import rewards
from rlvr import testing

BY_LABEL = functools.partial(advantages.arc, label='strategy')
PLAIN = functools.partial(advantages.grpo, eps=0.)


def make(rewards_, strategies, **fields):
  return testing.make_rollout(rewards_, strategy=jnp.array(strategies), **fields)


class ArcTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = make([[.9, .7, .4, .2]], [0, 0, 1, 1])
    np.testing.assert_allclose(
        self.variant(BY_LABEL)(rollout), [.1, -.1, .1, -.1], rtol=1e-5)
    scaled = functools.partial(BY_LABEL, base=PLAIN)
    np.testing.assert_allclose(self.variant(scaled)(rollout), [1, -1, 1, -1], rtol=1e-5)
    grpo = PLAIN(rollout)
    assert grpo[1] > grpo[2]  # the second above the third

  def test_a_taste_for_a_strategy_changes_nothing(self):
    rollout = make([[.9, .7, .4, .2], [1, 0, 0]], [0, 0, 1, 1, 2, 2, 0])
    liked = (rollout.extras['strategy'] == 0).astype(jnp.float32)
    moved = rollout.replace(reward=rollout.reward + .5 * liked)
    np.testing.assert_allclose(BY_LABEL(moved), BY_LABEL(rollout), atol=1e-6)
    scaled = functools.partial(BY_LABEL, base=PLAIN)
    moved = rollout.replace(reward=rollout.reward * (1 + 3 * liked) + .5 * liked)
    np.testing.assert_allclose(scaled(moved), scaled(rollout), atol=1e-5)

  def test_one_strategy_is_the_group(self):
    rollout = make([[.9, .7, .4], [1, 0]], [5, 5, 5, 5, 5])
    np.testing.assert_array_equal(BY_LABEL(rollout), advantages.dr_grpo(rollout))
    np.testing.assert_array_equal(BY_LABEL(rollout, base=PLAIN), PLAIN(rollout))
    np.testing.assert_array_equal(advantages.arc(rollout), advantages.dr_grpo(rollout))
    np.testing.assert_array_equal(BY_LABEL(rollout, between=1.), advantages.dr_grpo(rollout))

  def test_names_do_not_matter(self):
    rollout = make([[.9, .7, .4, .2]], [0, 1, 1, 0])
    renamed = make([[.9, .7, .4, .2]], [9, -4, -4, 9])
    np.testing.assert_array_equal(BY_LABEL(renamed), BY_LABEL(rollout))

  def test_sums_and_singletons(self):
    rollout = make([[.9, .7, .4, .2, 1.]], [0, 0, 1, 1, 2])
    result = BY_LABEL(rollout)
    np.testing.assert_allclose((result[:2].sum(), result[2:4].sum()), 0, atol=1e-6)
    assert result[4] == 0
    prompt = BY_LABEL(rollout, singleton='prompt')
    np.testing.assert_allclose(prompt[4], 1 - .64, rtol=1e-5)
    np.testing.assert_array_equal(prompt[:4], result[:4])
    alone = make([[.9, .7, .4]], [0, 1, 2])
    np.testing.assert_array_equal(BY_LABEL(alone), 0)

  def test_between(self):
    """Verifiable subgroup means 0 and 1, eta 1."""
    rollout = make([[.9, .7, .4, .2]], [0, 0, 1, 1], columns=[[0], [0], [1], [1]])
    np.testing.assert_allclose(
        BY_LABEL(rollout, between=1.), [-.4, -.6, .6, .4], rtol=1e-5)

  def test_between_counts_a_subgroup_once(self):
    rollout = make([[1, 1, 1, 0]], [0, 0, 0, 1])
    np.testing.assert_allclose(BY_LABEL(rollout, between=1.), [.5, .5, .5, -.5], rtol=1e-5)

  def test_variances(self):
    """(inter + intra)(1 - 1/N) in a mixed group, intra (1 - 1/N) inside a strategy."""
    rng = np.random.default_rng(0)
    num, size = 4000, 8
    strategy = rng.integers(0, 2, (num, size))
    noise = .3 * rng.normal(size=(num, size))
    base = testing.make_rollout([[0, 0]], padding=num * size - 2)
    on = lambda rewards_, label: base.replace(
        where=jnp.ones(num * size, bool), graded=jnp.ones(num * size, bool),
        group=jnp.repeat(jnp.arange(num), size), reward=jnp.asarray(rewards_.reshape(-1)),
        extras={'strategy': jnp.asarray(label.reshape(-1))})
    mixed = advantages.dr_grpo(on(strategy + noise, strategy))
    np.testing.assert_allclose(np.var(mixed), (.25 + .09) * 7 / 8, rtol=.02)  # .297
    same = np.repeat(strategy[:, :1], size, axis=1)
    np.testing.assert_allclose(
        np.var(BY_LABEL(on(same + noise, same))), .09 * 7 / 8, rtol=.03)  # .079

  def test_hybrid_reward(self):
    rollout = testing.make_rollout([[1, 0]], columns=[[1, .2], [0, .9]])
    np.testing.assert_allclose(
        rewards.weighted_columns(rollout, weights=(.5, .5)), [.6, .45], rtol=1e-6)

  def test_entropy_term(self):
    """Entropies 1, 3 and a pad at .01: -.02."""
    cell = testing.make_cell([0.], mask=jnp.array([[1., 1, 0]]))
    out = testing.make_output(jnp.zeros((1, 3)), entropy=jnp.array([[1., 3, jnp.nan]]))
    terms, _ = losses.entropy_bonus(out, cell, {})
    np.testing.assert_allclose(
        .01 * testing.objective(terms, cell.weights['loss']), -.02, rtol=1e-6)

  def test_refusals(self):
    rollout = testing.make_rollout([[1, 0]])
    with pytest.raises(ValueError, match="extras\\['strategy'\\]"):
      BY_LABEL(rollout)
    with pytest.raises(ValueError, match="singleton='mean'"):
      advantages.arc(rollout, singleton='mean')
    with pytest.raises(ValueError, match='between=-1'):
      advantages.arc(rollout, between=-1.)
