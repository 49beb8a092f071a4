"""Leaving a run cleanly: the first signal asks, the second Ctrl-C insists."""

import signal
import threading

from absl import logging

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
  """Context in which SIGINT and SIGTERM set a flag that the loop polls.

      with interrupt.Interrupt() as stop:
        for step in ...:
          ...
          if stop.requested:
            save(); break

  The first SIGINT or SIGTERM sets `requested`; a SIGINT after it raises
  KeyboardInterrupt where the program stands; a further SIGTERM changes nothing
  (schedulers send it more than once). The old handlers come back on exit. Off
  the main thread, where Python allows no handlers, `requested` stays False.
  """

  def __init__(self):
    self.requested = False
    self._old = {}

  def __enter__(self) -> 'Interrupt':
    if threading.current_thread() is threading.main_thread():
      for number in _SIGNALS:
        self._old[number] = signal.signal(number, self._handle)
    return self

  def __exit__(self, *exc_info) -> None:
    for number, handler in self._old.items():
      # None: the handler was not set from Python and cannot be put back.
      signal.signal(number, signal.SIG_DFL if handler is None else handler)
    self._old = {}

  def _handle(self, number, frame):
    del frame
    if self.requested and number == signal.SIGINT:
      raise KeyboardInterrupt
    if not self.requested:
      self.requested = True
      logging.warning(
          '%s: the run stops after this step and saves; Ctrl-C again stops it at once.',
          signal.Signals(number).name)
