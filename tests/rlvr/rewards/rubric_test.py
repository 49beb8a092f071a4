"""RRT on a rollout, and the table of criteria that it learns online."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import advantages
from rlvr import rewards
from rlvr import testing
from rlvr import types
from rlvr.rewards import item_response
from rlvr.rewards import rubric

A, B = jnp.array([2., 1, .5]), jnp.array([0., 1, -1])


def make(verdicts, rewards_=None):
  """One group; each row's outcome and its verdicts."""
  outcome = rewards_ or [1.0] * len(verdicts)
  columns = [[0.0 if r is None else r, *row] for r, row in zip(outcome, verdicts, strict=True)]
  return testing.make_rollout([outcome], columns=columns)


def with_items(rollout):
  rows = rollout.where.shape[0]
  items = {name: jnp.broadcast_to(x[None], (rows, 3)) for name, x in (('rrt_a', A), ('rrt_b', B))}
  return rollout.replace(extras=items)


def state_of(memory):
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params={}, opt_state=(), anchors={}, method={}, knobs={},
      key=jax.random.key(0))
  return memory.init(state, 5)


class RrtTest(chex.TestCase):

  @chex.all_variants
  def test_worked(self):
    rollout = with_items(make([[1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]]))
    np.testing.assert_allclose(
        self.variant(rewards.rrt)(rollout), [.18646, .04081, 1.02413, -.77580], atol=1e-5)

  def test_pitfalls_are_good_if_absent(self):
    plain = rewards.rrt(with_items(make([[1, 0, 1]])))
    turned = rewards.rrt(with_items(make([[1, 1, 0]])), points=(5, -3, -2))
    np.testing.assert_array_equal(turned, plain)

  def test_one_criterion_is_grpo_on_it(self):
    rollout = make([[1], [0], [0], [1]], [0., 1, 0, 1])
    rollout = rollout.replace(reward=rewards.rrt(rollout))
    expected = advantages.grpo(testing.make_rollout([[1, 0, 0, 1]]), eps=0.0)
    np.testing.assert_allclose(advantages.grpo(rollout, eps=0.0), expected, rtol=1e-6)

  def test_equal_verdicts_carry_no_signal(self):
    rollout = make([[1, 0, 1]] * 3, [0., 1, 1])
    rollout = rollout.replace(reward=rewards.rrt(rollout))
    np.testing.assert_array_equal(advantages.grpo(rollout), 0)

  def test_ungraded_rows_and_columns_that_do_not_apply(self):
    rollout = with_items(make([[1, 1, 1], [1, 1, 1], [1, 1, 1]], [1., None, 0.]))
    where = rollout.column_where.at[2].set(jnp.array([True, True, False, False]))
    result = rewards.rrt(rollout.replace(column_where=where))
    assert result[1] == 0 and 0 < result[2] < result[0]

  def test_without_criteria_it_is_zero(self):
    np.testing.assert_array_equal(rewards.rrt(testing.make_rollout([[1, 0]])), 0)

  def test_a_budget_reads_the_most_informative_criterion_only(self):
    rollout = with_items(make([[1, 0, 0], [1, 1, 1], [0, 1, 1]]))
    result = rewards.rrt(rollout, budget=1)
    assert result[0] == result[1] and result[2] == -result[0]
    np.testing.assert_array_equal(rewards.rrt(rollout, budget=3), rewards.rrt(rollout))

  def test_ranges(self):
    with pytest.raises(ValueError, match='rrt: budget=-1'):
      rewards.rrt(make([[1]]), budget=-1)
    with pytest.raises(ValueError, match='each of the 1 criteria'):
      rewards.rrt(make([[1]]), points=(1, 2))


class ItemsTest(chex.TestCase):

  def test_the_m_steps_gradient_is_that_of_finite_differences(self):
    rng = np.random.default_rng(0)
    verdicts = jnp.asarray(rng.integers(0, 2, (6, 3)), jnp.float32)
    judged = jnp.asarray(rng.uniform(size=(6, 3)) < .8)
    z = item_response.quality(verdicts, judged, A, B)
    table = jnp.stack([jnp.log(A), B])
    loss = jax.jit(lambda t: rubric.item_loss(t[0], t[1], verdicts, judged, z))
    grad, step = jax.grad(loss)(table), 1e-2
    for index in np.ndindex(2, 3):
      moved = [loss(table.at[index].add(s)) for s in (step, -step)]
      np.testing.assert_allclose((moved[0] - moved[1]) / (2 * step), grad[index], atol=2e-4)

  def test_the_loss_by_hand(self):
    """One verdict, y = 1, z = b: -log Phi(0) + .05 log(a)^2; the others are not judged."""
    judged = jnp.array([[True, False, False]])
    loss = rubric.item_loss(jnp.log(A), B, jnp.ones((1, 3)), judged, jnp.zeros(1))
    np.testing.assert_allclose(loss, np.log(2) + .05 * np.log(2)**2, rtol=1e-6)

  def test_it_starts_neutral_and_reads_onto_rows(self):
    memory = rubric.rrt_items(max_criteria=4)
    rollout = memory.read(make([[1, 0, 1], [0, 0, 1]]), state_of(memory))
    np.testing.assert_array_equal(rollout.extras['rrt_a'], np.ones((2, 3)))
    np.testing.assert_array_equal(rollout.extras['rrt_b'], np.zeros((2, 3)))
    np.testing.assert_array_equal(rewards.rrt(rollout), rewards.rrt(make([[1, 0, 1], [0, 0, 1]])))

  def test_a_step_moves_each_criterion_to_what_is_seen(self):
    """Met by all: easier. Met by none: harder. A pitfall met by all: harder, once turned."""
    points = (1, 1, -1)
    memory = rubric.rrt_items(max_criteria=4, points=points, learning_rate=.1)
    rollout = make([[1, 0, 1]] * 4)
    state = jax.jit(memory.write)(state_of(memory), rollout, {})
    table = state.method['rrt_items']['table']
    # Adam's first step is the rate, whatever the gradient's size; row 3 has no criterion.
    np.testing.assert_allclose(table['b'], [-.1, .1, .1, 0], atol=1e-4)

  def test_it_finds_known_items(self):
    """Discriminations and difficulties are recovered in order from simulated groups."""
    rng = np.random.default_rng(1)
    a, b = np.array([3., 1, .3, 1]), np.array([0., 1, 0, -1])
    z = rng.normal(size=400)
    p = np.asarray(jax.scipy.stats.norm.cdf(a * (z[:, None] - b)))
    rollout = make((rng.uniform(size=p.shape) < p).astype(np.float32).tolist())
    memory = rubric.rrt_items(max_criteria=4, learning_rate=.05)
    write, state = jax.jit(memory.write), state_of(memory)
    for _ in range(150):
      state = write(state, rollout, {})
    table = state.method['rrt_items']['table']
    learnt = np.exp(np.asarray(table['log_a']))
    assert learnt[0] > max(learnt[1], learnt[3]) and min(learnt[1], learnt[3]) > learnt[2]
    assert table['b'][3] < -.3 and table['b'][1] > .3  # taken at modes, they are shrunk to 0
    before = rewards.rrt(rollout)
    after = rewards.rrt(memory.read(rollout, state))
    true = lambda x: np.corrcoef(np.asarray(x), z)[0, 1]
    assert true(after) > true(before) + .01

  def test_the_table_stays_in_its_bounds(self):
    memory = rubric.rrt_items(max_criteria=2, learning_rate=5.0)
    write, state = jax.jit(memory.write), state_of(memory)
    for verdicts in ([[1, 0]] * 4, [[1, 1], [1, 0]]):
      for _ in range(3):
        state = write(state, make(verdicts), {})
        table = state.method['rrt_items']['table']
        assert np.abs(table['b']).max() <= 4 and np.exp(table['log_a']).min() >= .05 - 1e-6
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(state.method))

  def test_nothing_judged_moves_nothing(self):
    memory = rubric.rrt_items(max_criteria=2)
    state = memory.write(state_of(memory), make([[1, 0]], [None]), {})
    for x in jax.tree.leaves(state.method['rrt_items']['table']):
      np.testing.assert_array_equal(x, 0)

  def test_ranges(self):
    memory = rubric.rrt_items(max_criteria=2)
    with pytest.raises(ValueError, match='max_criteria=2 is less than the 3 criteria'):
      memory.read(make([[1, 0, 1]]), state_of(memory))
    for options in ({'learning_rate': -1.0}, {'max_grad_norm': 0.0}, {'prior': -1.0},
                    {'weight_decay': -1.0}, {'max_criteria': 0}):
      (name, value), = options.items()
      with pytest.raises(ValueError, match=f'rrt_items: {name}={value}'):
        functools.partial(rubric.rrt_items, **options)()
