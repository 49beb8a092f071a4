"""Tests of rlvr.host.rollouts."""

import types

import jax
import numpy as np
import pytest

from rlvr import advantages
from rlvr import rewards
from rlvr import testing
from rlvr.host import rollouts
from rlvr.host import tokenizer as tokenizer_lib
from rlvr.host import verify_pool
from rlvr.train import readings
from rlvr.verifiers import verdict


class Words:
  """A tokenizer of single letters: 'a' is 1."""

  def encode_chat(self, messages):
    return [ord(letter) - 96 for letter in messages[-1]['content']]

  def decode(self, ids, skip_special=True):
    return ''.join(chr(96 + i) for i in ids if i or not skip_special)


def task(number, text, **more):
  return {'id': number, 'messages': [{'role': 'user', 'content': text}], 'answer': 'x', **more}


class TestEncodePrompts:

  @pytest.mark.parametrize('longest, width', [(1, 4), (3, 4), (4, 4), (5, 8), (8, 8)])
  def test_the_smallest_bucket_that_holds_the_longest(self, longest, width):
    prompts = rollouts.encode_prompts(Words(), [task(5, 'b'), task(9, 'a' * longest)], (4, 8))
    assert prompts.tokens.shape == (2, width)
    np.testing.assert_array_equal(prompts.tokens[0], [2] + [0] * (width - 1))
    np.testing.assert_array_equal(prompts.tokens[1], [1] * longest + [0] * (width - longest))
    np.testing.assert_array_equal(prompts.length, [1, longest])
    np.testing.assert_array_equal(prompts.id, [5, 9])
    assert {x.dtype for x in jax.tree.leaves(prompts)} == {np.dtype('int32')}

  def test_ten_lengths_have_two_shapes(self):
    """Fault 53."""
    shapes = {rollouts.encode_prompts(Words(), [task(0, 'a' * n)], (8, 16)).tokens.shape
              for n in range(1, 11)}
    assert shapes == {(1, 8), (1, 16)}

  def test_a_prompt_too_long_is_named_with_its_task(self):
    with pytest.raises(ValueError, match=r'task 7 has 9 tokens, more than the largest bucket 8 '):
      rollouts.encode_prompts(Words(), [task(0, 'a'), task(7, 'a' * 9)], (4, 8))

  def test_an_empty_prompt_is_an_error(self):
    with pytest.raises(ValueError, match='task 3 is empty'):
      rollouts.encode_prompts(Words(), [task(3, '')], (4,))


class TestCompletions:

  def test_ids_come_from_the_mask_not_from_their_values(self):
    """A real token with the id of padding is kept (fault 1)."""
    tokens = np.array([[1, 0, 2, 3], [4, 4, 4, 4]])
    valid = np.array([[1, 1, 1, 0], [0, 0, 0, 0]], bool)
    decoder = lambda ids: '-'.join(map(str, ids))
    assert rollouts.completions(
        type('T', (), {'decode': staticmethod(decoder)}), tokens, valid) == ['1-0-2', '']

  def test_bytes_that_are_no_text_do_not_raise(self):
    texts = rollouts.completions(
        tokenizer_lib.ByteTokenizer(), np.array([[255, 254, 66]]), np.ones((1, 3), bool))
    assert texts == ['\ufffd\ufffd?']


def _graded(verdicts, columns=()):
  rollout = testing.make_rollout([[0.0] * len(verdicts)]).replace(
      reward=None, columns=None, column_where=None, graded=None)
  return rollouts.with_rewards(rollout, verdicts, columns)


class TestWithRewards:

  def test_an_outage_of_three_in_eight_is_excluded_not_zero(self):
    """Fault 40: three rows leave the group's statistics, and the share is logged."""
    outage = verdict.failed(verdict.GRADER_ERROR)
    verdicts = [verdict.graded_as(right, '') for right in (1, 0, 0, 1, 1)] + [outage] * 3
    rollout = _graded(verdicts)
    np.testing.assert_array_equal(rollout.graded, [True] * 5 + [False] * 3)
    assert not np.isnan(rollout.columns).any()
    rollout = rollout.replace(reward=rewards.outcome(rollout))
    assert float(readings.rollout_metrics(rollout, 0)['ungraded']) == .375
    assert float(readings.rollout_metrics(rollout, 0)['reward']) == pytest.approx(.6)
    assert verdict.shares(verdicts)['ungraded'] == .375
    centred = advantages.dr_grpo(rollout)
    np.testing.assert_allclose(centred, [.4, -.6, -.6, .4, .4, 0, 0, 0], atol=1e-6)

  def test_what_the_policy_causes_counts_as_zero(self):
    """Fault 40, the other half: its own time-out is trained on."""
    rollout = _graded([verdict.failed(verdict.TIMEOUT), verdict.graded_as(True, '')])
    np.testing.assert_array_equal(rollout.graded, [True, True])
    np.testing.assert_array_equal(rollout.columns, [[0], [1]])

  def test_named_parts_stand_after_the_outcome_where_they_apply(self):
    verdicts = [
        verdict.Verdict(.5, {'passed': .5, 'format': 1.0}),
        verdict.Verdict(1.0, {'passed': 1.0, 'unknown': 9.0}),
        verdict.failed(verdict.OUTAGE, columns={'format': 1.0}),
        None]
    rollout = _graded(verdicts, ('format', 'passed'))
    np.testing.assert_array_equal(
        rollout.columns, [[.5, 1, .5], [1, 0, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(rollout.column_where, np.array(
        [[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 0, 0]], bool))
    np.testing.assert_array_equal(rollout.graded, [True, True, False, False])

  def test_shapes_do_not_depend_on_the_verdicts(self):
    one, other = (_graded(v, ('format',)) for v in (
        [verdict.Verdict(1.0, {'format': 1.0})], [verdict.failed(verdict.OUTAGE)]))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), one) == jax.tree.map(
        lambda x: (x.shape, x.dtype), other)


class Pool:
  """Grades in this process."""

  def __init__(self, verifier):
    self._verifier = verifier

  def grade(self, tasks, texts):
    return verify_pool.grade_here(self._verifier, tasks, texts)


class TestColumnNames:

  def test_what_a_right_and_a_wrong_answer_show_together_sorted(self):
    def verifier(task, text):
      if text == task['answer']:
        return verdict.Verdict(1.0, {'z': 1.0})
      return verdict.failed(verdict.NO_ANSWER, columns={'a': 0.0} if text else {'m': 0.0})
    assert rollouts.column_names(Pool(verifier), task(0, 'a', answer='4')) == ('a', 'm', 'z')

  def test_none_where_there_are_none_or_the_verifier_fails(self):
    def raises(task, text):
      raise RuntimeError
    plain = lambda task, text: verdict.graded_as(True, text)
    assert rollouts.column_names(Pool(plain), task(0, 'a')) == ()
    assert rollouts.column_names(Pool(raises), task(0, 'a')) == ()

  def test_offsets_are_found_the_same_way(self):
    def verifier(task, text):
      return verdict.Verdict(0.0, {'column': 1.0}, offsets={'z': 0, f'a{len(text)}': -1})
    graded = Pool(verifier), task(0, 'a', answer='word')
    assert rollouts.offset_names(*graded) == ('a0', 'a1', 'a4', 'z')


class TestSampleAndGrade:

  def test_a_verdicts_place_is_a_position_of_the_response(self):
    """A fixed set of names, whatever the verdicts say."""
    rollout = testing.make_rollout([[0, 0]], tokens=[[2, 1, 3], [1]], padding=1)
    stats = types.SimpleNamespace(iterations=1, active=1, slots=1)

    def verifier(task, text):
      return verdict.Verdict(0.0, offsets={'b': text.find('a'), 'other': 0})

    sampled = rollouts.sample_and_grade(
        [task(0, 'a')], sample=lambda prompts: (rollout, stats), tokenizer=Words(),
        pool=Pool(verifier), buckets=(4,), offsets=('absent', 'b'))
    assert set(sampled.rollout.extras) == {'absent', 'b'}
    np.testing.assert_array_equal(sampled.rollout.extras['b'], [1, 0, -1])
    np.testing.assert_array_equal(sampled.rollout.extras['absent'], [-1, -1, -1])


class TestSplitMetrics:

  def test_means_over_the_rows_that_they_apply_to(self):
    verdicts = [verdict.Verdict(1.0, {'format': 1.0}), verdict.Verdict(0.0, {'format': 0.0}),
                verdict.Verdict(1.0, {}), verdict.failed(verdict.OUTAGE), None]
    tasks = [task(0, 'a', level=0), task(1, 'a', level=2), task(2, 'a'), task(3, 'a', level=2),
             None]
    sampled = rollouts.Sampled(_graded(verdicts, ('format', 'never')), tasks, [''] * 5, verdicts,
                               {})
    assert rollouts.split_metrics(
        sampled, ('format', 'never'), np.array([.5, -.5, 9, 9, 9], np.float32)) == {
            'column/format': .5, 'reward/level_0': .5, 'reward/level_2': -.5}


class TestTextRows:

  def test_a_row_shows_its_own_prompt_and_verdict(self):
    rollout = testing.make_rollout(
        [[1, 0], [1]], tokens=[[1], [2, 3], [4]], prompts=[[5, 6], [7]], padding=1)
    verdicts = [verdict.Verdict(1.0, answer='A'), verdict.failed(verdict.TIMEOUT),
                verdict.Verdict(1.0, answer='C'), None]
    tasks = [task(0, 'ef'), task(0, 'ef'), task(1, 'g', answer='9'), None]
    sampled = rollouts.Sampled(rollout, tasks, ['a', 'bc', 'd', ''], verdicts, {})
    rows = rollouts.text_rows(sampled, Words(), np.array([.5, -.5, 0, 0]))
    assert [(r['prompt'], r['completion'], r['answer'], r['gold'], r['reward'], r['status'],
             r['advantage'], r['length'], r['group'], r['id']) for r in rows] == [
                 ('ef', 'a', 'A', 'x', 1, 'ok', .5, 1, 0, 0),
                 ('ef', 'bc', '', 'x', 0, 'timeout', -.5, 2, 0, 0),
                 ('g', 'd', 'C', '9', 1, 'ok', 0, 1, 1, 1)]
    assert {row['stop'] for row in rows} == {'stop'}
