"""Counting compilations: a new one in mid-run is a shape that nobody expected."""

from collections.abc import Callable
from typing import Any


class Counter:
  """Counts how often wrapped functions are traced, which is how often they compile.

  Wrap a function before it goes into jit or pmap: its Python body runs once a
  compiled program, and counts itself then.
  """

  def __init__(self):
    self.count = 0

  def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, counting each trace."""
    def traced(*args, **kwargs):
      self.count += 1
      return function(*args, **kwargs)
    return traced
