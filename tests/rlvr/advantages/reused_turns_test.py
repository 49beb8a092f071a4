"""Credit along the trace of chosen turns, by the card's numbers, and its mask."""

import functools

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import testing
from rlvr.advantages import reused_turns
from rlvr.host import turn_memory

KINDS = [1, 2, 0, 1, 2, 3, 1, 3, 1, 4]
TURNS = [0, 0, 0, 1, 1, 0, 2, 1, 3, 3]
TRAINED = [float(kind != 0) for kind in KINDS]
CHOSEN = [([0], 1), ([1], 2)]
LAST = [0, 0, 0, 1, 1, 0, 0, 1, 0, 1]
ALL = [1, 1, 0, 1, 1, 1, 0, 1, 0, 1]
PLAIN = functools.partial(advantages.grpo, eps=0.)


def make(rewards, chosen=CHOSEN, **fields):
  """One group; each row is a trajectory of the card's ten tokens."""
  table, number = turn_memory.choices(chosen, max_chosen=2)
  rows = len(rewards)
  on_rows = lambda x: jnp.repeat(jnp.array(x, jnp.int32)[None], rows, axis=0)
  return testing.make_rollout(
      [rewards], masks=[TRAINED] * rows, turn=on_rows(TURNS), token_kind=on_rows(KINDS),
      chosen=on_rows(table), boundaries=on_rows(number), **fields)


class TraceCreditTest(chex.TestCase):

  @chex.all_variants
  @parameterized.parameters(
      ('last', 0., LAST), ('all', 0., ALL), ('last', .5, [.5, .5, 0, 1, 1, .5, .5, 1, .5, 1]),
      ('last', 1., TRAINED))
  def test_worked(self, scope, low, expected):
    rollout = make([1.])
    part = functools.partial(reused_turns.token_credit, scope=scope, low=low)
    np.testing.assert_array_equal(self.variant(part)(rollout)[0], expected)

  def test_without_a_boundary_all_trained_tokens_count(self):
    np.testing.assert_array_equal(reused_turns.token_credit(make([1.], chosen=[]))[0], TRAINED)

  def test_an_empty_choice_credits_selection_and_answer_alone(self):
    credit = reused_turns.token_credit(make([1.], chosen=[([], 4)]))[0]
    np.testing.assert_array_equal(credit, [0, 0, 0, 0, 0, 1, 0, 0, 0, 1])

  def test_a_future_turn_that_was_named_is_not_credited_later(self):
    credit = reused_turns.token_credit(make([1.], chosen=[([3, 0], 1)]))[0]
    np.testing.assert_array_equal(credit, [1, 1, 0, 0, 0, 1, 0, 0, 0, 1])

  def test_the_last_boundary_is_within_all(self):
    for chosen in ([], CHOSEN, [([0, 1], 2), ([2], 3)], [([0], 1), ([], 2)]):
      rollout = make([1.], chosen=chosen)
      last, every = (reused_turns.token_credit(rollout, scope=s) for s in ('last', 'all'))
      assert (last <= every).all()


class EchoMemoryTest(chex.TestCase):

  @chex.all_variants
  def test_a_right_rollout_reinforces_its_trace_and_a_wrong_one_nothing(self):
    part = functools.partial(advantages.echo_memory, base=PLAIN)
    result = self.variant(part)(make([1., 0.]))
    np.testing.assert_allclose(result, [LAST, [0] * 10], rtol=1e-6)
    np.testing.assert_array_equal(self.variant(part)(make([1., 1.])), 0)

  def test_answer_tokens_get_the_advantage_and_the_environment_nothing(self):
    rollout = make([1., 1., 0.])
    result, whole = advantages.echo_memory(rollout), advantages.grpo(rollout)
    np.testing.assert_array_equal(result[:, 9], jnp.maximum(whole, 0))
    np.testing.assert_array_equal(result[:, 2], 0)
    assert (result >= 0).all()

  def test_dense_credit(self):
    rollout = make([1., 1., 0.])
    np.testing.assert_allclose(
        advantages.echo_memory(rollout, low=1.),
        np.maximum(advantages.grpo(rollout), 0)[:, None] * np.array(TRAINED)[None], rtol=1e-6)

  def test_segments_of_a_trajectory_share_its_advantage(self):
    """Trajectories of 3 rows, 1 and 1: the mean is 1/3, not that of five rows."""
    rollout = make([1., 1., 1., 0., 0.], trajectory=jnp.array([7, 7, 7, 2, 3]))
    single = advantages.grpo(testing.make_rollout([[1., 0., 0.]]))
    np.testing.assert_allclose(
        advantages.echo_memory(rollout)[:, 9], [*[single[0]] * 3, 0, 0], rtol=1e-6)

  def test_refusals(self):
    rollout = make([1., 0.])
    for options, words in ((dict(scope='first'), "scope='first'"), (dict(low=2.), 'low=2.0'),
                           (dict(base=advantages.eapo), 'one advantage a row')):
      with pytest.raises(ValueError, match=words):
        advantages.echo_memory(rollout, **options)
    with pytest.raises(ValueError, match='token_kind'):
      advantages.echo_memory(rollout.replace(extras={}))


class CreditedTokensTest(chex.TestCase):

  def test_failed_rollouts_stay_in_the_divisor_and_uncredited_tokens_leave_it(self):
    """Two rows of 4 credited tokens: each term weighs 1/8, and at ratio 1 the sum is -1/2."""
    rollout = make([1., 0.])
    mask = masks.credited_tokens(rollout)
    np.testing.assert_array_equal(mask, [LAST, LAST])
    credit = advantages.echo_memory(rollout, base=PLAIN)
    cell = testing.make_cell(credit, mask=mask, old_logp=rollout.old_logp)
    weights = aggregate.token_mean(mask, jnp.ones(2), rollout.where, rollout.group)
    terms, _ = losses.surrogate(testing.make_output(rollout.old_logp), cell, {})
    np.testing.assert_allclose(testing.objective(terms, weights), -4 / 8, rtol=1e-6)

  def test_with_low_above_0_it_is_all_trained_tokens(self):
    rollout = make([1., 0.], where=jnp.array([True, False]))
    np.testing.assert_array_equal(
        masks.credited_tokens(rollout, low=.1), masks.policy_tokens(rollout))
    np.testing.assert_array_equal(masks.credited_tokens(rollout)[1], 0)
