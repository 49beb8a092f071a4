"""Tests of rlvr.host.evaluate."""

import itertools
import unittest

import numpy as np
import pytest

from rlvr.host import evaluate


class PassAtKTest(unittest.TestCase):

  def test_is_the_combinatorial_form(self):
    """fault 55: drawing with replacement would give .684 and .4375."""
    self.assertEqual(evaluate.pass_at_k(4, 1, 4), 1.0)
    self.assertAlmostEqual(float(evaluate.pass_at_k(4, 1, 2)), 0.5, places=12)
    self.assertEqual(evaluate.pass_at_k(4, 0, 4), 0.0)

  def test_equals_the_share_of_all_subsets(self):
    for n, c, k in itertools.product([5, 7], [0, 1, 3, 5], [1, 2, 4, 5]):
      samples = [1] * c + [0] * (n - c)
      subsets = list(itertools.combinations(samples, k))
      expected = sum(any(s) for s in subsets) / len(subsets)
      self.assertAlmostEqual(float(evaluate.pass_at_k(n, c, k)), expected, places=12)

  def test_large_counts_do_not_overflow(self):
    value = float(evaluate.pass_at_k(10_000, 1, 5_000))
    self.assertAlmostEqual(value, 0.5, places=9)

  def test_arrays(self):
    np.testing.assert_allclose(evaluate.pass_at_k([4, 4], [1, 2], 1), [0.25, 0.5])

  def test_out_of_range(self):
    with self.assertRaisesRegex(ValueError, 'pass@5 needs 5 samples a prompt, but a prompt has 4'):
      evaluate.pass_at_k([8, 4], [1, 1], 5)
    with self.assertRaisesRegex(ValueError, 'k must be at least 1'):
      evaluate.pass_at_k(4, 1, 0)
    with self.assertRaisesRegex(ValueError, r'c must lie in \[0, n\]'):
      evaluate.pass_at_k(4, 5, 1)


class AvgAtKTest(unittest.TestCase):

  def test_ungraded_samples_are_outside(self):
    correct = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    where = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_allclose(evaluate.avg_at_k(correct), [0.5, 1, 0])
    np.testing.assert_allclose(evaluate.avg_at_k(correct, where), [1 / 3, np.nan, 0])

  def test_rewards_are_not_verdicts(self):
    with self.assertRaisesRegex(ValueError, 'correct must be bool'):
      evaluate.avg_at_k(np.array([[0.1, 0.0]]))


class IntervalTest(unittest.TestCase):

  def test_wilson_by_hand(self):
    # c=8, n=10, z=1.96: centre (.8 + .19208) / 1.38416, half .2250 (Agresti & Coull 1998).
    low, high = evaluate.wilson_interval(8, 10)
    self.assertAlmostEqual(low, 0.4902, places=4)
    self.assertAlmostEqual(high, 0.9433, places=4)

  def test_wilson_at_the_ends_is_inside_0_1_and_not_empty(self):
    for c in (0, 20):
      low, high = evaluate.wilson_interval(c, 20)
      self.assertGreaterEqual(low, 0)
      self.assertLessEqual(high, 1)
      self.assertGreater(high - low, 0.1)
    with self.assertRaisesRegex(ValueError, 'n >= 1'):
      evaluate.wilson_interval(0, 0)

  def test_bootstrap_is_deterministic_and_near_the_normal_interval(self):
    values = np.random.default_rng(1).normal(size=400)
    low, high = evaluate.bootstrap_interval(values)
    self.assertEqual((low, high), evaluate.bootstrap_interval(values))
    self.assertNotEqual((low, high), evaluate.bootstrap_interval(values, seed=1))
    half = 1.96 * values.std() / 20
    self.assertAlmostEqual(low, values.mean() - half, delta=0.01)
    self.assertAlmostEqual(high, values.mean() + half, delta=0.01)

  def test_clusters_not_samples_are_resampled(self):
    """50 prompts, each all right or all wrong: 8 samples a prompt add nothing."""
    correct = np.repeat(np.arange(50)[:, None] % 2 == 0, 8, axis=1)
    result = evaluate.summarise(correct, None, [1])
    width = result['avg@8_high'] - result['avg@8_low']
    self.assertAlmostEqual(width, 2 * 1.96 * 0.5 / 50 ** 0.5, delta=0.03)

  def test_coverage_of_the_bootstrap_is_near_95_percent(self):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
      low, high = evaluate.bootstrap_interval(rng.random(60), num_resamples=400)
      hits += low <= 0.5 <= high
    self.assertGreater(hits, 178)
    self.assertLess(hits, 200)

  def test_nan_is_refused(self):
    with self.assertRaisesRegex(ValueError, 'non-empty finite'):
      evaluate.bootstrap_interval(np.array([1.0, np.nan]))


class SummariseTest(unittest.TestCase):

  def setUp(self):
    self.correct = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    self.greedy = np.array([1, 1, 0], bool)

  def test_by_hand(self):
    result = evaluate.summarise(self.correct, self.greedy, [1, 2, 4])
    self.assertAlmostEqual(result['accuracy'], 2 / 3)
    self.assertAlmostEqual(result['avg@4'], 1.25 / 3)
    self.assertAlmostEqual(result['pass@1'], 1.25 / 3)
    self.assertAlmostEqual(result['pass@2'], 1.5 / 3)
    self.assertAlmostEqual(result['pass@4'], 2 / 3)
    self.assertEqual(result['ungraded'], 0)
    for name in ('accuracy', 'avg@4', 'pass@1', 'pass@2', 'pass@4'):
      self.assertLessEqual(result[f'{name}_low'], result[name])
      self.assertGreaterEqual(result[f'{name}_high'], result[name])
    self.assertTrue(all(isinstance(v, float) for v in result.values()))
    self.assertFalse(any('left_out' in name for name in result))

  def test_ungraded_rows_change_nothing_but_the_counts(self):
    """An outage is not a wrong answer: the same table with ungraded rows added."""
    wide = np.concatenate([self.correct, np.zeros((1, 4), bool)])
    where = np.ones_like(wide)
    where[3] = False
    result = evaluate.summarise(
        wide, np.append(self.greedy, False), [2], where=where,
        greedy_where=np.array([1, 1, 1, 0], bool))
    plain = evaluate.summarise(self.correct, self.greedy, [2])
    for name in plain:
      if name != 'ungraded':
        self.assertEqual(result[name], plain[name], name)
    self.assertEqual(result['pass@2_left_out'], 1)
    self.assertEqual(result['ungraded'], 5 / 20)

  def test_a_prompt_with_too_few_graded_is_left_out_and_counted(self):
    where = np.ones_like(self.correct)
    where[2, 0] = False
    result = evaluate.summarise(self.correct, None, [4], where=where)
    self.assertEqual(result['pass@4'], 1.0)
    self.assertEqual(result['pass@4_left_out'], 1)

  def test_k_above_what_is_there(self):
    with self.assertRaisesRegex(ValueError, 'pass@8 needs 8 graded samples .* at most 4 graded'):
      evaluate.summarise(self.correct, None, [8])
    where = np.zeros_like(self.correct)
    with self.assertRaisesRegex(ValueError, 'None of the 12 samples is graded'):
      evaluate.summarise(self.correct, None, [1], where=where)
    with self.assertRaisesRegex(ValueError, 'None of the 3 greedy answers is graded'):
      evaluate.summarise(None, self.greedy, [], greedy_where=np.zeros(3, bool))


if __name__ == '__main__':
  pytest.main([__file__])
