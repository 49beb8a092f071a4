"""Hidden-Align: the card's worked values, what must hold, and the term inside a step."""

import functools
import pathlib
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'train'))

import direct  # noqa: E402

from rlvr import aggregate  # noqa: E402
from rlvr import losses  # noqa: E402
from rlvr import masks  # noqa: E402
from rlvr import testing  # noqa: E402
from rlvr.train import prepare  # noqa: E402
from rlvr.train import update  # noqa: E402

TOKENS = [[4, 4, 9, 4], [4, 9, 4], [4, 4, 4, 9], [4, 9]] + [[4, 4, 9], [4, 9, 4]] * 2 + [[4, 9]] * 4


def cell_of(ok, group=None):
  """Rows of one token; those of `ok` carry the term's weight, averaged over groups."""
  mask = jnp.array(ok, jnp.float32)[:, None]
  num_rows = mask.shape[0]
  group = jnp.zeros(num_rows, jnp.int32) if group is None else jnp.array(group)
  weight = aggregate.prompt_mean_token_mean(mask, jnp.ones(num_rows), None, group)
  return testing.make_cell(jnp.zeros(num_rows), weights={'align': weight}, group=group)


def total(hidden, cell, **options):
  out = testing.make_output(jnp.zeros(hidden.shape[:1] + (1,)), hidden=hidden[:, None])
  terms, _ = losses.hidden_align(out, cell, {}, **options)
  return testing.objective(terms, cell.weights['align'])


CARD = jnp.array([[1., 0], [0, 2], [3, 0], [5, 5]])
OK = [1, 1, 1, 0]


class WorkedTest(chex.TestCase):

  @chex.all_variants
  def test_value_and_gradient(self):
    value, grad = self.variant(jax.value_and_grad(total))(CARD, cell_of(OK))
    np.testing.assert_allclose(value, 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(grad, [[0, -1 / 3], [-1 / 3, 0], [0, -1 / 9], [0, 0]], atol=1e-6)

  def test_the_gradient_is_the_closed_form(self):
    """-2 / (K (K - 1)) (I - u u^T) (S - u) / |h|."""
    hidden = jax.random.normal(jax.random.key(0), (5, 3))
    unit = hidden / jnp.linalg.norm(hidden, axis=1, keepdims=True)
    rest = jnp.sum(unit, axis=0, keepdims=True) - unit
    across = rest - unit * jnp.sum(unit * rest, axis=1, keepdims=True)
    expected = -across / 10 / jnp.linalg.norm(hidden, axis=1, keepdims=True)
    np.testing.assert_allclose(
        jax.grad(total)(hidden, cell_of([1] * 5)), expected, rtol=1e-4, atol=1e-6)

  def test_the_gradient_is_that_of_finite_differences(self):
    hidden, step = jax.random.normal(jax.random.key(1), (4, 3)), 1e-2
    grad = jax.grad(total)(hidden, cell_of(OK))
    for index in np.ndindex(4, 3):
      moved = [total(hidden.at[index].add(s), cell_of(OK)) for s in (step, -step)]
      np.testing.assert_allclose(
          (moved[0] - moved[1]) / (2 * step), grad[index], rtol=1e-2, atol=1e-3)

  def test_the_centroid(self):
    """u = e1, e2, e1: S = (2, 1), 1 - mean u . S / |S| = 1 - (2 + 1 + 2) / (3 sqrt 5)."""
    value, grad = jax.value_and_grad(total)(CARD, cell_of(OK), mode='centroid')
    np.testing.assert_allclose(value, 1 - 5 / (3 * 5**.5), rtol=1e-6)
    unit = CARD[:3] / jnp.linalg.norm(CARD[:3], axis=1, keepdims=True)
    centre = jnp.array([[2., 1]]) / 5**.5  # held constant
    across = centre - unit * jnp.sum(unit * centre, axis=1, keepdims=True)
    expected = -across / 3 / jnp.linalg.norm(CARD[:3], axis=1, keepdims=True)
    np.testing.assert_allclose(grad[:3], expected, rtol=1e-5, atol=1e-6)


class PropertiesTest(chex.TestCase):

  def test_range_and_parallel_states(self):
    opposite = jnp.array([[1., 0], [-2, 0]])
    np.testing.assert_allclose(total(opposite, cell_of([1, 1])), 2, rtol=1e-6)
    parallel = jnp.array([[1., 2], [3, 6], [.1, .2]])
    value, grad = jax.value_and_grad(total)(parallel, cell_of([1] * 3))
    np.testing.assert_allclose(value, 0, atol=1e-6)
    np.testing.assert_allclose(grad, 0, atol=1e-6)
    for mode in losses.alignment.MODES:
      hidden = jax.random.normal(jax.random.key(2), (6, 4))
      assert 0 <= total(hidden, cell_of([1] * 6), mode=mode) <= 2

  def test_scale_and_rotation_change_nothing(self):
    hidden = jax.random.normal(jax.random.key(3), (4, 3))
    rotation = jnp.linalg.qr(jax.random.normal(jax.random.key(4), (3, 3)))[0]
    scaled = hidden * jnp.array([[2.], [.1], [30], [1]])
    for mode in losses.alignment.MODES:
      value = total(hidden, cell_of([1] * 4), mode=mode)
      for other in (scaled, hidden @ rotation):
        np.testing.assert_allclose(total(other, cell_of([1] * 4), mode=mode), value, rtol=1e-5)

  def test_only_directions_move_and_a_small_step_lowers_it(self):
    hidden, cell = jax.random.normal(jax.random.key(5), (5, 3)), cell_of([1, 1, 0, 1, 1])
    value, grad = jax.value_and_grad(total)(hidden, cell)
    np.testing.assert_allclose(jnp.sum(grad * hidden, axis=1), 0, atol=1e-6)
    np.testing.assert_array_equal(grad[2], 0)
    assert total(hidden - .01 * grad, cell) < value

  def test_groups_weigh_the_same_and_lone_rows_nothing(self):
    hidden = jnp.array([[1., 0], [0, 1], [1, 0], [1, 0], [1, 1], [5, -1]])
    # Group 0 has L = 1, group 1 has L = mean of pairs (1, 1/sqrt 2, 1/sqrt 2), group 2 one row.
    cell = testing.make_cell(jnp.zeros(6), group=jnp.array([0, 0, 1, 1, 1, 2]))
    rollout = testing.make_rollout([[1, 1], [1, 1, 1], [1]], tokens=[[4, 9, 4]] * 6)
    mask = masks.answer_anchor(rollout, marker=(9,))[:, 1:2]
    weight = aggregate.prompt_mean_token_mean(mask, jnp.ones(6), None, rollout.group)
    value = total(hidden, cell.replace(weights={'align': weight}))
    np.testing.assert_allclose(value, (1 + 1 - (1 + 2 / 2**.5) / 3) / 2, rtol=1e-6)

  def test_a_noisy_cluster_closes_and_keeps_its_direction(self):
    centre = jnp.array([[1., 2, -1, .5]])
    hidden = centre + .5 * jax.random.normal(jax.random.key(6), (8, 4))
    cell, start = cell_of([1] * 8), hidden
    first = total(hidden, cell)
    grad = jax.jit(jax.grad(total))
    for _ in range(200):
      hidden = hidden - grad(hidden, cell)
    assert total(hidden, cell) < .2 * first
    before, after = (jnp.mean(h / jnp.linalg.norm(h, axis=1, keepdims=True), axis=0)
                     for h in (start, hidden))
    cosine = before @ after / jnp.linalg.norm(before) / jnp.linalg.norm(after)
    assert cosine > .98

  def test_no_pair_no_term(self):
    for ok in ([0] * 4, [0, 1, 0, 0]):
      value, grad = jax.value_and_grad(total)(CARD, cell_of(ok))
      assert value == 0
      np.testing.assert_array_equal(grad, 0)

  def test_a_state_of_zero_is_no_direction(self):
    value, grad = jax.value_and_grad(total)(jnp.zeros((3, 2)), cell_of([1] * 3))
    assert value == 1 and bool(jnp.isfinite(grad).all())

  def test_half_precision_is_summed_in_full(self):
    hidden = jax.random.normal(jax.random.key(7), (4, 3)).astype(jnp.bfloat16)
    low = total(hidden, cell_of([1] * 4))
    np.testing.assert_array_equal(low, total(hidden.astype(jnp.float32), cell_of([1] * 4)))

  def test_the_metric_is_the_mean_cosine(self):
    cell = cell_of(OK)
    out = testing.make_output(jnp.zeros((4, 1)), hidden=CARD[:, None])
    terms, metrics = losses.hidden_align(out, cell, {})
    np.testing.assert_allclose(metrics['anchor_cosine'][:, 0], [.5, 0, .5, 0], atol=1e-6)
    np.testing.assert_allclose(terms[:, 0], [.5, 1, .5, 0], atol=1e-6)

  def test_faults_say_what_is_missing(self):
    out = testing.make_output(jnp.zeros((4, 1)))
    with pytest.raises(ValueError, match='out.hidden, which is None'):
      losses.hidden_align(out, cell_of(OK), {})
    with pytest.raises(ValueError, match="mode='mean' must be one of pairwise, centroid"):
      losses.hidden_align(out, cell_of(OK), {}, mode='mean')


class StepTest(chex.TestCase):
  """The term inside `update`, in cells, beside a policy gradient."""

  def moved(self, rewards, coef, num_cells=4, marker=(9,)):
    rollout = direct.make_rollout(rewards, tokens=TOKENS)
    state = direct.make_state(rollout, knobs={'coef_pg': 1.0, 'coef_align': coef})
    hidden = jax.random.normal(jax.random.key(8), rollout.tokens.shape + (3,))
    state = state.replace(params=state.params | {'hidden': hidden})

    def score(params, rows, knobs):
      out = direct.score(params, rows, knobs)
      return out.replace(hidden=params['hidden'][rows.extras['row']][:, :rows.tokens.shape[1]])

    policy = direct.POLICY._replace(score=score)
    recipe = direct.make_recipe(terms={
        'pg': prepare.Term(losses.policy_gradient, masks.policy_tokens, aggregate.token_mean),
        'align': prepare.Term(
            losses.hidden_align, functools.partial(masks.answer_anchor, marker=marker),
            aggregate.prompt_mean_token_mean)}, advantage_only=False)
    layout = direct.make_layout(num_cells=num_cells, rows=16 // num_cells, spans=(4,))
    batches, _, _ = jax.jit(prepare.make_prepare(recipe, policy, layout))(rollout, state)
    step = jax.jit(update.make_update(policy, recipe.terms, optax.sgd(1.0), layout))
    new, metrics = step(state, batches[0])
    difference = jax.tree.map(lambda a, b: np.asarray(a - b), state.params, new.params)
    return difference['logp'], difference['hidden'], metrics, hidden

  def test_the_gradient_in_cells_is_that_of_the_whole(self):
    rewards = [[1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 0, 0]]
    _, grad, metrics, hidden = self.moved(rewards, 0.5)
    at = np.array([2, 1, 3, 1, 2, 1, 2, 1, 1, 1, 1, 1])  # where the marker starts
    ok = np.array([1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0])
    cell = cell_of(ok, np.repeat(np.arange(3), 4))
    chosen = hidden[np.arange(12), at]
    value, expected = jax.value_and_grad(total)(chosen, cell)
    np.testing.assert_allclose(metrics['align/loss'], value, rtol=1e-5)
    np.testing.assert_allclose(metrics['anchor_cosine'], 1 - value, rtol=1e-5)
    np.testing.assert_allclose(grad[np.arange(12), at], .5 * expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.delete(grad.reshape(48, 3), np.arange(12) * 4 + at, 0), 0)

  def test_without_coefficient_or_pairs_only_the_policy_gradient_is_left(self):
    rewards = [[1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 0, 0]]
    with_term, _, _, _ = self.moved(rewards, 0.5)
    without, grad, _, _ = self.moved(rewards, 0.0)
    np.testing.assert_array_equal(grad, 0)
    np.testing.assert_array_equal(with_term, without)  # its log-probs are not the term's
    unpaired, grad, metrics, _ = self.moved(rewards, 0.5, marker=(7,))
    np.testing.assert_array_equal(grad, 0)
    np.testing.assert_array_equal(unpaired, without)
    assert metrics['align/loss'] == 0 and metrics['skipped'] == 0
