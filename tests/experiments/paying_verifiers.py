"""Verifiers of what an untrained policy writes; importable by the pool's workers."""

import sys
import time
import zlib

from rlvr.verifiers import verdict


def by_hash(task, text):
  """Pays a third of all texts, so that groups are mixed from the first step on."""
  number = zlib.crc32(text.encode('utf-8', 'replace'))
  columns = {'third': float(number % 3 == 0)}
  if text.startswith(('0', '1', '2', '3')):
    columns['low'] = 1.0  # on few texts only, and not on those that name the columns
  return verdict.Verdict(columns['third'], columns, verdict.OK, str(number % 3))


def unruly(task, text):
  """By the text: hangs, raises, ends the process, or grades as `by_hash` does."""
  kind = zlib.crc32(text.encode('utf-8', 'replace')) % 16 if len(text) > 1 else 15
  if kind == 0:
    time.sleep(1000)
  elif kind in (1, 2, 3):
    raise RuntimeError('sandbox unreachable')
  elif kind in (4, 5):
    sys.exit(0)
  return by_hash(task, text)


def nothing(task, text):
  """Pays no text."""
  return verdict.graded_as(False, text)
