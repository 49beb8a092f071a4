"""A bounded context from records of single turns, as ECHO rebuilds it.

After each turn the policy writes a short record of it, which is never merged with
another, so that the turn's index is its address. Where the context grows too long, the
policy names the turns to keep, and the next context is the task, their records and the
most recent turns. The credit is rlvr/advantages/reused_turns.py's.
"""

from collections.abc import Sequence

import numpy as np


def sources(chosen: Sequence[int], now: int) -> list[int]:
  """The turns named that exist, in the policy's order: none twice, none outside [0, now)."""
  return list(dict.fromkeys(turn for turn in chosen if 0 <= turn < now))


def reconstruct(
    sizes: Sequence[int], chosen: Sequence[int], budget: int, now: int, *, recent: int = 3
) -> list[int]:
  """Which turns the next context shows, in time order.

  The last `recent` turns are always in and their sizes are charged first; then the
  chosen ones in the policy's order, each if it still fits.

  Args:
    sizes: tokens of each turn so far, at least `now` of them.
    chosen: turns that the policy named; bad, repeated and future ones are ignored.
    budget: tokens.
    now: turns so far.
    recent: turns that are always shown, at least 0.

  Returns:
    Turns in ascending order without repeats, of at most `budget` tokens or those of
    the recent turns alone, which are kept even where they exceed it.

  Raises:
    ValueError: an argument out of range.

  Source: ECHO (arXiv 2606.31650). Provenance: official README read; the packing rule
  is reconstructed.
  """
  if recent < 0:
    raise ValueError(f'reconstruct: recent={recent} must be at least 0.')
  if not 0 <= now <= len(sizes):
    raise ValueError(f'reconstruct: now={now} must lie in 0..{len(sizes)}, the sizes given.')
  shown = set(range(max(now - recent, 0), now))
  left = budget - sum(sizes[turn] for turn in shown)
  for turn in sources(chosen, now):
    if turn not in shown and sizes[turn] <= left:
      shown.add(turn)
      left -= sizes[turn]
  return sorted(shown)


def choices(
    boundaries: Sequence[tuple[Sequence[int], int]], *, max_boundaries: int = 5, max_chosen: int
) -> tuple[np.ndarray, int]:
  """A trajectory's choices as `echo_memory` reads them: i32[C, K], -1 for none, and their number.

  Args:
    boundaries: (turns named, turns so far) of each compression, in time order.
    max_boundaries: C; a trajectory that needs more is overlong and fails.
    max_chosen: K.

  Raises:
    ValueError: more boundaries or turns than there is room for.
  """
  if len(boundaries) > max_boundaries:
    raise ValueError(
        f'choices: {len(boundaries)} boundaries are more than max_boundaries={max_boundaries}.')
  table = np.full((max_boundaries, max_chosen), -1, np.int32)
  for row, (chosen, now) in zip(table, boundaries, strict=False):
    turns = sources(chosen, now)
    if len(turns) > max_chosen:
      raise ValueError(f'choices: {len(turns)} turns are more than max_chosen={max_chosen}.')
    row[:len(turns)] = turns
  return table, len(boundaries)
