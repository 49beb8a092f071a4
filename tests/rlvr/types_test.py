"""The row axis of a rollout: taking, joining and filling rows, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import rows as rows_lib
from rlvr import testing
from rlvr import types


def bare(rollout):
  """As it comes from the sampler, before anything is known of the rows."""
  return rollout.replace(
      reward=None, columns=None, column_where=None, graded=None, old_logp=None, ref_logp=None,
      value=None, entropy=None)


class TestRollout:

  def test_a_leaf_with_other_rows_is_named(self):
    rollout = testing.make_rollout([[1, 0, 1]])
    with pytest.raises(ValueError, match=r"Rollout.reward has shape \(2,\).* the 3 rows"):
      rollout.replace(reward=jnp.zeros(2))
    with pytest.raises(ValueError, match=r'Rollout.extras has shape \(4, 2\)'):
      rollout.replace(extras={'mine': jnp.zeros((4, 2))})

  def test_prompts_have_rows_of_their_own(self):
    assert testing.make_rollout([[1, 0, 1]]).prompts.id.shape == (1,)

  def test_lengths_count_the_environments_tokens_too(self):
    rollout = testing.make_rollout([[1, 0]], masks=[[1, 0, 0], [1]])
    np.testing.assert_array_equal(types.lengths(rollout), [3, 1])

  def test_graded_rows_hold_a_response_with_a_verdict(self):
    rollout = testing.make_rollout([[1, None]], padding=1)
    np.testing.assert_array_equal(types.graded(rollout), [True, False, False])
    ungraded = rollout.replace(graded=None)
    np.testing.assert_array_equal(types.graded(ungraded), [True, True, False])


class TestTakeRows:

  def test_one_index_for_every_field(self):
    # Fault 16: keep groups 0 and 2 of three groups of two.
    rollout = testing.make_rollout([[10, 11], [20, 21], [30, 31]], lengths=[1, 2, 3, 1, 2, 3],
                                   mine=np.arange(6))
    kept = rows_lib.take_rows(rollout, jnp.array([0, 1, 4, 5]))
    np.testing.assert_array_equal(kept.reward, [10, 11, 30, 31])
    np.testing.assert_array_equal(kept.columns[:, 0], [10, 11, 30, 31])
    np.testing.assert_array_equal(kept.prompt, [0, 0, 2, 2])
    np.testing.assert_array_equal(kept.extras['mine'], [0, 1, 4, 5])
    np.testing.assert_array_equal(types.lengths(kept), [1, 2, 2, 3])
    np.testing.assert_array_equal(kept.tokens, np.asarray(rollout.tokens)[[0, 1, 4, 5]])
    np.testing.assert_array_equal(kept.prompts.tokens, rollout.prompts.tokens)

  def test_regroup_makes_ids_dense_in_order_of_appearance(self):
    rollout = testing.make_rollout([[1, 1], [2, 2], [3, 3]])
    kept = rows_lib.regroup(rows_lib.take_rows(rollout, jnp.array([5, 2, 4])))
    np.testing.assert_array_equal(kept.group, [0, 1, 0])
    np.testing.assert_array_equal(kept.reward, [3, 2, 3])


class TestAlign:

  def test_fills_with_zeros_and_nothing_looks_graded_or_scored(self):
    like = testing.make_rollout([[1, 0]], padding=1, mine=np.ones((3, 4)))
    rollout = rows_lib.align(bare(testing.make_rollout([[1, 0, 1]], padding=1)), like)
    np.testing.assert_array_equal(rollout.old_logp, np.zeros((4, 2)))
    np.testing.assert_array_equal(rollout.columns, np.zeros((4, 1)))
    assert not np.asarray(rollout.column_where).any()
    np.testing.assert_array_equal(rollout.extras['mine'], np.zeros((4, 4)))
    assert rollout.turn is None

  def test_what_is_there_stays(self):
    rollout = testing.make_rollout([[1, 0]])
    same = rows_lib.align(rollout, testing.make_rollout([[0, 0]], seed=5))
    np.testing.assert_array_equal(same.old_logp, rollout.old_logp)
    np.testing.assert_array_equal(same.graded, rollout.graded)


class TestConcat:

  def test_prompts_and_groups_of_the_second_shift(self):
    first = testing.make_rollout([[1, 0], [1]], lengths=[2, 1, 2])
    second = testing.make_rollout([[5], [6]], prompts=[[7, 7], [8, 8]])
    both = rows_lib.concat(first, second)
    np.testing.assert_array_equal(both.reward, [1, 0, 1, 5, 6])
    assert both.prompts.id.shape == (4,)
    np.testing.assert_array_equal(both.prompts.tokens[both.prompt[3:], 0], [7, 8])
    groups = np.asarray(both.group)
    np.testing.assert_array_equal(groups[:3], first.group)
    assert len(set(groups[3:]) | set(groups[:3])) == 4 and groups.max() < 5

  def test_what_does_not_fit_is_named(self):
    first = testing.make_rollout([[1, 0]])
    with pytest.raises(ValueError, match='tokens has widths 2 and 3'):
      rows_lib.concat(first, testing.make_rollout([[1]], lengths=[3]))
    with pytest.raises(ValueError, match='prompts.tokens has widths 2 and 1'):
      rows_lib.concat(first, testing.make_rollout([[1]], prompts=[[4]]))
    with pytest.raises(ValueError, match='reward is set in one rollout only; call align first'):
      rows_lib.concat(first, bare(testing.make_rollout([[1]])))
    joined = rows_lib.concat(first, rows_lib.align(bare(testing.make_rollout([[1]])), first))
    assert joined.where.shape == (3,)


class TestConform:

  def test_exactly_the_fields_of_like(self):
    like = bare(testing.make_rollout([[1, 0]], mine=np.ones(2))).replace(reward=jnp.zeros(2))
    rollout = rows_lib.conform(testing.make_rollout([[1, 0, 1]], other=np.ones(3)), like)
    assert rollout.columns is None and rollout.old_logp is None
    np.testing.assert_array_equal(rollout.reward, [1, 0, 1])
    assert set(rollout.extras) == {'mine'}


class TestCompact:

  def test_used_rows_first_and_groups_dense(self):
    rollout = testing.make_rollout([[1, 2], [3], [4, 5]])
    rollout = rollout.replace(where=jnp.array([False, True, False, True, True]))
    small = rows_lib.compact(rollout, 4)
    np.testing.assert_array_equal(small.where, [True, True, True, False])
    np.testing.assert_array_equal(small.reward[:3], [2, 4, 5])
    np.testing.assert_array_equal(small.group[:3], [0, 1, 1])
    with pytest.raises(ValueError, match='num_rows=6, but there are 5'):
      rows_lib.compact(rollout, 6)


class TestOwnPrompts:

  def test_a_row_has_its_prompt_and_rows_of_one_prompt_share_the_first(self):
    rollout = testing.make_rollout([[1, 0], [1]], prompts=[[5], [6, 7]])
    own = rows_lib.own_prompts(rows_lib.pad_prompts(rollout, 3))
    np.testing.assert_array_equal(own.prompt, [0, 0, 2])
    np.testing.assert_array_equal(own.prompts.tokens, [[5, 0, 0], [5, 0, 0], [6, 7, 0]])
    np.testing.assert_array_equal(own.prompts.length, [1, 1, 2])
    with pytest.raises(ValueError, match='width=1, but the prompts have 2'):
      rows_lib.pad_prompts(rollout, 1)
