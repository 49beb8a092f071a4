"""RoRecomp's priority rows, by the card's numbers."""

import chex
import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized
from hypothesis import strategies as st

from rlvr import selection
from rlvr import testing


def chosen(rewards, lengths, **options):
  rollout = testing.make_rollout(rewards, lengths=lengths)
  weight = selection.rorecomp(rollout, rollout.reward, **options)
  return np.asarray(weight).astype(bool).tolist()


class RorecompTest(chex.TestCase):

  @chex.all_variants
  @parameterized.parameters(
      ([[1, 1, 1, 0, 0, 0]], [30, 10, 20, 5, 50, 9], .5, [0, 1, 1, 0, 1, 1]),
      ([[1, 1, 1]], [3, 2, 1], .34, [0, 1, 1]),  # ceil(1.02) = 2
      ([[0, 0]], [7, 7], .5, [1, 0]),  # a tie goes to the lower row
      ([[1, 0, 0, 0, 0]], [9, 1, 2, 3, 4], .5, [1, 0, 0, 1, 1]),  # one right response
      ([[1, 1], [1, 1], [0, 0]], [1, 2, 4, 3, 5, 6], .5, [1, 0, 0, 1, 0, 1]),  # each group
      ([[1, 1, 1, 1]], [1, 2, 3, 4], 1.0, [1, 1, 1, 1]))
  def test_worked(self, rewards, lengths, share, expected):
    rollout = testing.make_rollout(rewards, lengths=lengths)
    part = self.variant(lambda r: selection.rorecomp(r, r.reward, share=share))
    np.testing.assert_array_equal(part(rollout), np.array(expected, np.float32))

  def test_an_ungraded_row_is_neither_and_does_not_count(self):
    assert chosen([[1, None, 1, 1]], [9, 1, 5, 7]) == [False, False, True, True]

  def test_a_ceiling_is_not_lifted_by_rounding(self):
    """0.07 * 100 is above 7 in floating point."""
    assert sum(chosen([[1] * 100], [1] * 100, share=.07)) == 7

  @hypothesis.settings(max_examples=20, deadline=None)
  @hypothesis.given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=8, max_size=8),
                    st.floats(.05, 1))
  def test_no_selected_right_is_longer_and_no_selected_wrong_shorter(self, responses, share):
    right = np.array([r for r, _ in responses])
    length = np.array([n for _, n in responses])
    rollout = testing.make_rollout([right.astype(float).tolist()], lengths=length.tolist(),
                                   max_tokens=6)
    prio = np.asarray(selection.rorecomp(rollout, rollout.reward, share=share)) > 0
    for kind, sign in ((right, 1), (~right, -1)):
      taken, rest = sign * length[kind & prio], sign * length[kind & ~prio]
      if kind.any():
        assert len(taken) == np.ceil((share - 1e-6) * kind.sum())
      if len(rest):
        assert taken.max() <= rest.min()

  def test_base_narrows_it(self):
    rollout = testing.make_rollout([[1, 1], [1, 0]], lengths=[1, 2, 1, 2])
    weight = selection.rorecomp(rollout, rollout.reward, base=selection.mixed_groups)
    np.testing.assert_array_equal(weight, [0, 0, 1, 1])

  def test_what_it_refuses(self):
    rollout = testing.make_rollout([[1, 0]])
    for share in (0.0, 1.1):
      with pytest.raises(ValueError, match=f'share={share}'):
        selection.rorecomp(rollout, jnp.zeros(2), share=share)
    with pytest.raises(ValueError, match='columns'):
      selection.rorecomp(rollout.replace(columns=None), jnp.zeros(2))
