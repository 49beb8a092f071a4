"""Contexts rebuilt from chosen turns, by the card's numbers."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr.host import turn_memory


class TestReconstruct:

  @pytest.mark.parametrize('sizes, chosen, budget, now, recent, expected', [
      ([10, 20, 30, 40], [0, 1], 75, 4, 1, [0, 1, 3]),
      ([10, 20, 30, 40], [2, 0], 75, 4, 1, [2, 3]),
      ([10, 20, 30, 40], [1, 1, 9, -1], 75, 4, 1, [1, 3]),
      ([10, 20, 30, 40], [0, 1], 75, 0, 1, []),
      ([10, 20], [], 5, 2, 3, [0, 1]),  # the recent turns exceed the budget
      ([10, 20, 30], [0], 30, 3, 1, [2]),  # no room is left
      ([10, 20, 5], [2, 1], 25, 3, 1, [1, 2]),  # a recent turn is charged once
      ([9, 1, 1], [0, 1], 2, 3, 1, [1, 2])])  # what does not fit is skipped, the next may
  def test_worked(self, sizes, chosen, budget, now, recent, expected):
    assert turn_memory.reconstruct(sizes, chosen, budget, now, recent=recent) == expected

  def test_three_recent_turns(self):
    assert turn_memory.reconstruct([1] * 6, [], 9, 6) == [3, 4, 5]

  @hypothesis.settings(max_examples=100, deadline=None)
  @hypothesis.given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(-2, 8)),
                    st.integers(0, 30), st.integers(0, 4), st.data())
  def test_order_size_and_members(self, sizes, chosen, budget, recent, data):
    now = data.draw(st.integers(0, len(sizes)))
    shown = turn_memory.reconstruct(sizes, chosen, budget, now, recent=recent)
    last = list(range(max(now - recent, 0), now))
    assert shown == sorted(set(shown)) and set(last) <= set(shown)
    assert set(shown) <= set(last) | {turn for turn in chosen if 0 <= turn < now}
    assert sum(sizes[t] for t in shown) <= max(budget, sum(sizes[t] for t in last))

  @pytest.mark.parametrize('options', [dict(now=3), dict(now=-1), dict(now=1, recent=-1)])
  def test_refusals(self, options):
    with pytest.raises(ValueError, match='reconstruct: '):
      turn_memory.reconstruct([1, 2], [], 5, **options)


class TestChoices:

  def test_worked(self):
    table, number = turn_memory.choices(
        [([1, 1, 9, -1, 0], 2), ([], 4)], max_boundaries=3, max_chosen=2)
    np.testing.assert_array_equal(table, [[1, 0], [-1, -1], [-1, -1]])
    assert number == 2 and table.dtype == np.int32

  def test_room(self):
    with pytest.raises(ValueError, match='max_boundaries=5'):
      turn_memory.choices([([], 1)] * 6, max_chosen=1)
    with pytest.raises(ValueError, match='max_chosen=1'):
      turn_memory.choices([([0, 1], 2)], max_chosen=1)
