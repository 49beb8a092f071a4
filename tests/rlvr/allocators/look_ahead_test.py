"""One-step look-ahead: gains and rounds by hand, and the budget that is never passed."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import allocators
from rlvr import testing
from rlvr.allocators import look_ahead
from rlvr.allocators import splits


def rounds(prior, extra, *, first=4, reward=1., **options):
  """Rollouts a prompt when every reward is the same, and how many extra ones were drawn."""
  num, used = jnp.full(len(prior), first), 0
  while True:
    new = look_ahead.osla_round(
        jnp.full(len(prior), reward), jnp.asarray(prior), num, extra - used, **options)
    if not new.any():
      return np.asarray(num), used
    num, used = num + new, used + int(new.sum())


class TestGain:

  def test_worked(self):
    """n = 4, m = 1, V = 0: .1875 - .157895."""
    gain = look_ahead.osla_gain(jnp.ones(1), jnp.zeros(1), jnp.full(1, 4))
    np.testing.assert_allclose(gain, .029605, rtol=1e-4)

  def test_no_bias_no_gain(self):
    np.testing.assert_array_equal(
        look_ahead.osla_gain(jnp.array([.4, -1.]), jnp.zeros(2), jnp.array([4, 1])), 0)

  def test_falls_with_n_at_a_fixed_bias(self):
    num = jnp.arange(1, 20)
    error = look_ahead.fused_error(jnp.full(19, .5), num)
    assert (np.diff(error) < 0).all() and (np.diff(error, 2) > 0).all()

  def test_several_at_a_time_are_priced_each(self):
    one = look_ahead.osla_gain(jnp.ones(1), jnp.zeros(1), jnp.full(1, 4))
    four = look_ahead.osla_gain(jnp.ones(1), jnp.zeros(1), jnp.full(1, 4), add=4)
    assert 0 < four[0] < one[0]


class TestRounds:

  def test_the_prompts_of_the_card(self):
    num, used = rounds([-.6, 0., .9], 1000)
    np.testing.assert_array_equal(num, [16, 15, 4])
    assert used == num.sum() - 12
    np.testing.assert_array_equal(rounds([-.6, 0., .9], 3)[0], [6, 5, 4])

  def test_the_budget(self):
    rng = np.random.default_rng(0)
    for extra in (0, 1, 7, 40):
      for add in (1, 4):
        num, used = rounds(rng.uniform(-1, 1, 9).astype(np.float32), extra, add=add)
        assert (num >= 4).all() and (num <= 16).all()
        assert num.sum() == 9 * 4 + used and used <= extra

  def test_the_largest_gain_goes_first_and_equals_by_index(self):
    new = look_ahead.osla_round(jnp.ones(4), jnp.array([.9, 0., -.6, -.6]), jnp.full(4, 4), 2)
    np.testing.assert_array_equal(new, [0, 0, 1, 1])
    new = look_ahead.osla_round(jnp.ones(3), jnp.array([0., 0., 0.]), jnp.full(3, 4), 5, add=4)
    np.testing.assert_array_equal(new, [4, 1, 0])

  def test_refusals(self):
    args = jnp.ones(1), jnp.zeros(1), jnp.full(1, 4), 1
    for options, message in ((dict(add=0), 'add=0'), (dict(max_num=0), 'max_num=0'),
                             (dict(cost=0.), 'cost=0.0')):
      with pytest.raises(ValueError, match=message):
        look_ahead.osla_round(*args, **options)


class TestEvenSplit:

  @pytest.mark.parametrize('total, parts, expected', [
      (8, 3, (3, 3, 2)), (2, 4, (1, 1, 0, 0)), (0, 2, (0, 0)), (6, 1, (6,))])
  def test_examples(self, total, parts, expected):
    assert splits.even_split(total, parts) == expected
    assert sum(expected) == total

  def test_refusals(self):
    for total, parts in ((-1, 2), (3, 0)):
      with pytest.raises(ValueError, match=f'total={total}'):
        splits.even_split(total, parts)


def held(rewards, priors, **fields):
  """Graded rows with a prior per prompt."""
  rows = [p for p, group in zip(priors, rewards, strict=True) for _ in group]
  return testing.make_rollout(rewards, prior=np.array(rows, np.float32), **fields)


class TestOsla:

  def test_the_first_round_of_the_card(self):
    rollout = held([[1.] * 4] * 3, [-.6, 0., .9])
    np.testing.assert_array_equal(allocators.osla(rollout, 100), [1, 1, 0])
    np.testing.assert_array_equal(allocators.osla(rollout, 100, add=4), [4, 4, 0])
    np.testing.assert_array_equal(allocators.osla(rollout, 5, add=4, most=7), [3, 2, 0])
    np.testing.assert_array_equal(allocators.osla(rollout, 0), [0, 0, 0])

  def test_outcomes_and_priors_of_0_and_1(self):
    half = held([[1.] * 4] * 2, [.2, .95])
    whole = held([[1.] * 4] * 2, [-.6, .9])
    np.testing.assert_array_equal(
        allocators.osla(half, 9, add=4, low=0.), allocators.osla(whole, 9, add=4))

  def test_a_prompt_twice_is_one_and_the_first_gets_the_rows(self):
    rollout = held([[1., 1.], [1., 1.], [1.] * 4], [-.6, -.6, .9])
    prompts = rollout.prompts.replace(id=jnp.array([7, 7, 3]))
    counts = allocators.osla(rollout.replace(prompts=prompts), 9, add=4, most=7)
    np.testing.assert_array_equal(counts, [3, 0, 0])  # four rows are held

  def test_rows_without_a_verdict_tell_nothing_and_take_room(self):
    rollout = held([[None] * 4, [1., 1., 1., 1., None, None]], [-.6, -.6])
    np.testing.assert_array_equal(allocators.osla(rollout, 9, add=4, most=8), [0, 2])

  def test_refusals(self):
    with pytest.raises(ValueError, match='low=1.0'):
      allocators.osla(held([[1.]], [0.]), 1, low=1.)
    with pytest.raises(ValueError, match="osla reads rollout.extras\\['prior'\\]"):
      allocators.osla(testing.make_rollout([[1.]]), 1)
