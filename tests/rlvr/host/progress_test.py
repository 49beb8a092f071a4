"""Tests of rlvr.host.progress."""

import io
import os
import unittest
from unittest import mock

from rlvr.host import progress


class Terminal(io.StringIO):

  def isatty(self):
    return True


class ProgressTest(unittest.TestCase):

  def setUp(self):
    self.now = 0.0
    self.metrics = {'reward': 0.5, 'length': 84.2, 'entropy': 1.024, 'mismatch_kl': 1.2e-4,
                    'tokens_per_second': 12345.6}

  def make(self, stream, num_steps=10):
    return progress.Progress(num_steps, stream=stream, clock=lambda: self.now)

  def test_one_line_a_step_off_a_terminal(self):
    stream = io.StringIO()
    shown = self.make(stream)
    shown.update(1, self.metrics)
    self.now = 2.0
    shown.update(2, {'reward': 1.0})
    shown.close()
    self.assertEqual(
        stream.getvalue(),
        'step  1/10  reward 0.500  length 84  entropy 1.02  mismatch kl 1.2e-04  tok/s 12,346\n'
        'step  2/10  16s left  reward 1.000\n')

  @mock.patch.dict(os.environ, COLUMNS='60')
  def test_a_terminal_line_is_rewritten_and_never_wraps(self):
    stream = Terminal()
    shown = self.make(stream)
    for step in (1, 2):
      shown.update(step, self.metrics)
    shown.note('block')
    shown.update(3, self.metrics)
    shown.close()
    shown.close()
    parts = stream.getvalue().split('\r\x1b[K')[1:]
    self.assertTrue(parts[0].startswith('step  1/10') and '\n' not in parts[0])
    self.assertEqual(parts[2], 'block\n')
    self.assertTrue(parts[3].startswith('step  3/10') and parts[3].endswith('\n'))
    self.assertEqual(stream.getvalue().count('\n'), 2)
    self.assertEqual(max(len(part.rstrip('\n')) for part in parts), 59)

  def test_time_left_excludes_the_compile_step(self):
    shown = self.make(io.StringIO(), num_steps=100)
    self.now = 600.0  # Compiling took ten minutes.
    shown.update(1, {})
    self.assertIsNone(shown.seconds_left())
    for step in range(2, 51):
      self.now += 2.0
      shown.update(step, {})
    self.assertAlmostEqual(shown.seconds_left(), 100.0)

  def test_time_left_is_steady_and_counts_skipped_steps(self):
    shown = self.make(io.StringIO(), num_steps=1000)
    for step in range(0, 500, 5):
      shown.update(step, {})
      self.now += 5.0
    before = shown.seconds_left()
    self.assertAlmostEqual(before, 505.0)
    self.now += 5.0  # One slow interval moves the estimate by a tenth of its excess.
    shown.update(500, {})
    self.assertAlmostEqual(shown.seconds_left(), 500 * 1.1, places=1)

  def test_durations(self):
    for seconds, text in ((0.4, '0s'), (59.6, '1m00s'), (200, '3m20s'), (7500, '2h05m'),
                          (270_000, '3d03h')):
      self.assertEqual(progress.duration(seconds), text)


class FirstExampleTest(unittest.TestCase):

  def test_block(self):
    self.assertEqual(
        progress.first_example('What is 2+3?', 'Let me see.\n\nIt is 5', '5', 1.0, gold='5',
                               status='correct', width=24),
        '-- prompt --------------\n'
        'What is 2+3?\n'
        '-- completion ----------\n'
        'Let me see.\n\nIt is 5\n'
        '-- verdict -------------\n'
        'answer  5\ngold    5\nreward  1  (correct)\n'
        '------------------------')

  def test_nothing_found_and_empty(self):
    text = progress.first_example('p', '', None, 0.0)
    self.assertIn('(empty)', text)
    self.assertIn('answer  (none found)', text)

  def test_wrapped_and_escaped(self):
    text = progress.first_example('word ' * 100, '\x1b[2Jgone\r\x07' + 'x' * 300, '\x1b[0m', 0.0,
                                  gold='\x1b', status='\x9b1m', width=40)
    self.assertLessEqual(max(map(len, text.split('\n'))), 40)
    self.assertTrue(all(c.isprintable() or c == '\n' for c in text))
    self.assertIn(r'\x1b[2Jgone\r\x07', text)


class PrintableTest(unittest.TestCase):

  def test_every_character_is_harmless(self):
    everything = ''.join(map(chr, range(0x110000)))
    text = progress.printable(everything)
    self.assertTrue(all(c.isprintable() or c == '\n' or c.isspace() for c in text))
    text.encode('utf-8')
    for bad in '\x1b\r\x08\x7f\x9b\u202e\u2066\u200b\u2028\ud800':
      self.assertNotIn(bad, text)

  def test_ordinary_text_is_unchanged(self):
    for text in ('a b\nc', 'é ∑ 漢字 \\boxed{1}', ''):
      self.assertEqual(progress.printable(text), text)
    self.assertEqual(progress.printable('\t'), '  ')


if __name__ == '__main__':
  unittest.main()
