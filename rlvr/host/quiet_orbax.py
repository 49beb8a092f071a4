"""Keeps what Orbax prints about a failed save off the terminal: the fault is raised anyway."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from absl import logging as absl_logging


@contextlib.contextmanager
def faults_only_raised() -> Iterator[None]:
  """Inside it, a fault that Orbax raises is not also shown as pages of tracebacks.

  Each of Orbax's threads logs the fault; the writes that were in flight when the
  first one failed report that nobody waits for them, and asyncio that nobody
  looked at their faults. These last two come whenever it suits them, so after
  a fault the filters stay.
  """
  loggers, hook = (absl_logging.get_absl_logger(), logging.getLogger('asyncio')), sys.unraisablehook

  def keep(record):
    about_orbax = 'orbax' in record.pathname or 'orbax' in record.getMessage()
    return not (record.exc_info and about_orbax)

  def without_stragglers(raised):
    if not (raised.exc_type is RuntimeError and str(raised.exc_value) == 'Event loop is closed'):
      hook(raised)

  for logger in loggers:
    logger.addFilter(keep)
  sys.unraisablehook = without_stragglers
  yield
  for logger in loggers:
    logger.removeFilter(keep)
  sys.unraisablehook = hook
