"""Tests of rlvr.host.interrupt."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from rlvr.host import interrupt


class InterruptTest(unittest.TestCase):

  def test_the_first_signal_sets_the_flag_only(self):
    for number in (signal.SIGINT, signal.SIGTERM):
      with interrupt.Interrupt() as stop:
        self.assertFalse(stop.requested)
        os.kill(os.getpid(), number)
        self.assertTrue(stop.requested)

  def test_the_second_ctrl_c_raises_and_a_second_sigterm_does_not(self):
    for first in (signal.SIGINT, signal.SIGTERM):
      with interrupt.Interrupt() as stop:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertTrue(stop.requested)
        with self.assertRaises(KeyboardInterrupt):
          os.kill(os.getpid(), signal.SIGINT)
          signal.pthread_sigmask(signal.SIG_BLOCK, [])  # A call in which the handler can run.

  def test_old_handlers_come_back_even_after_an_exception(self):
    def mine(number, frame):
      del number, frame
    old = signal.signal(signal.SIGTERM, mine)
    try:
      before = signal.getsignal(signal.SIGINT)
      with self.assertRaises(ZeroDivisionError), interrupt.Interrupt():
        self.assertIsNot(signal.getsignal(signal.SIGTERM), mine)
        raise ZeroDivisionError
      self.assertIs(signal.getsignal(signal.SIGTERM), mine)
      self.assertIs(signal.getsignal(signal.SIGINT), before)
    finally:
      signal.signal(signal.SIGTERM, old)

  def test_off_the_main_thread_it_does_nothing(self):
    before, seen = signal.getsignal(signal.SIGINT), []

    def body():
      with interrupt.Interrupt() as stop:
        seen.append((stop.requested, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    self.assertEqual(seen, [(False, True)])

  def test_a_loop_leaves_cleanly(self):
    code = (
        'import time\n'
        'from rlvr.host import interrupt\n'
        'with interrupt.Interrupt() as stop:\n'
        '  print("ready", flush=True)\n'
        '  while not stop.requested: time.sleep(.01)\n'
        'print("saved", flush=True)\n')
    child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    self.assertEqual(child.stdout.readline(), 'ready\n')
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=20)
    self.assertEqual((out, child.returncode), ('saved\n', 0))
    self.assertIn('SIGTERM: the run stops after this step and saves', err)


if __name__ == '__main__':
  unittest.main()
