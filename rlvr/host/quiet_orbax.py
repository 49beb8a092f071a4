"""Keeps what Orbax prints about a failed save off the terminal: the fault is raised anyway."""

import contextlib
import sys
import time
from collections.abc import Iterator

from absl import logging

_STRAGGLER_SECONDS = 0.5


@contextlib.contextmanager
def faults_only_raised() -> Iterator[None]:
  """Inside it, a fault that Orbax raises is not also shown as a page of tracebacks.

  Each of Orbax's threads logs the fault, and the writes that were in flight when
  the first one failed report, one traceback each, that nobody waits for them.
  """
  logger, hook = logging.get_absl_logger(), sys.excepthook
  keep = lambda record: not (record.exc_info and 'orbax' in record.pathname)

  def without_stragglers(kind, value, traceback):
    if not (kind is RuntimeError and str(value) == 'Event loop is closed'):
      hook(kind, value, traceback)

  logger.addFilter(keep)
  sys.excepthook = without_stragglers
  try:
    yield
  except BaseException:
    time.sleep(_STRAGGLER_SECONDS)
    raise
  finally:
    logger.removeFilter(keep)
    sys.excepthook = hook
