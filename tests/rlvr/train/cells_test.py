"""Where rows go: whole groups, capacity, local indices, and the loop over cells in use."""

import dataclasses

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr import testing
from rlvr.train import cells

LAYOUT = cells.Layout(devices=2, cells=3, rows=4, prompts=2, spans=(2, 4, 8))
NUM_ROWS, NUM_PROMPTS, WIDTH = 12, 5, 8


def make_rollout(group, prompt, length):
  rollout = testing.make_rollout(
      [[0.0] * NUM_ROWS], lengths=length, max_tokens=WIDTH,
      prompts=[[p + 1] * (1 + p % 2) for p in range(NUM_PROMPTS)], row=np.arange(NUM_ROWS))
  return rollout.replace(group=jnp.asarray(group), prompt=jnp.asarray(prompt))


@jax.jit
def place(rollout, keep):
  table, used = cells.place(rollout, keep, LAYOUT)
  return table, used, *cells.localise(rollout, table, LAYOUT.prompts)


def simulated(group, prompt, length, keep):
  """Which cell each group goes to, in plain Python; None for one that fits nowhere."""
  members = {g: [r for r in range(NUM_ROWS) if keep[r] and group[r] == g] for g in set(group)}
  members = {g: rows for g, rows in members.items() if rows}
  load = [0] * LAYOUT.devices
  filled = {(d, m): [0, 0] for d in range(LAYOUT.devices) for m in range(LAYOUT.cells)}
  result = {}
  for g in sorted(members, key=lambda g: (-max(length[r] for r in members[g]), g)):
    need = len(members[g]), len({prompt[r] for r in members[g]})
    fits = [cell for cell, used in filled.items()
            if used[0] + need[0] <= LAYOUT.rows and used[1] + need[1] <= LAYOUT.prompts]
    result[g] = None
    if fits:
      device = min({d for d, _ in fits}, key=lambda d: (load[d], d))
      cell = min(c for c in fits if c[0] == device)
      filled[cell] = [filled[cell][0] + need[0], filled[cell][1] + need[1]]
      load[device] += sum(length[r] for r in members[g])
      result[g] = cell
  return result


rows_of = lambda low, high: st.lists(
    st.integers(low, high), min_size=NUM_ROWS, max_size=NUM_ROWS)


class TestPlace:

  @hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
  @hypothesis.given(group=rows_of(0, 6), prompt=rows_of(0, NUM_PROMPTS - 1),
                    length=rows_of(0, WIDTH), keep=rows_of(0, 3))
  def test_whole_groups_under_local_indices(self, group, prompt, length, keep):
    keep = np.array(keep) > 0
    rollout = make_rollout(group, prompt, length)
    table, used, prompts, local_prompt, local_group = map(
        lambda x: jax.tree.map(np.asarray, x), place(rollout, jnp.asarray(keep)))
    expected = simulated(group, prompt, length, keep)
    place_of = {r: tuple(at) for *at, r in (
        (d, m, r) for (d, m, _), r in np.ndenumerate(table) if r < NUM_ROWS)}
    assert len(place_of) == (table < NUM_ROWS).sum()  # nothing stands twice
    # Every kept row is where its group is; nothing else is anywhere.
    assert place_of == {r: expected[group[r]] for r in range(NUM_ROWS)
                        if keep[r] and expected[group[r]] is not None}
    in_use = (table < NUM_ROWS).any(axis=2)
    np.testing.assert_array_equal(used, in_use.sum(axis=1))
    for d in range(LAYOUT.devices):
      assert in_use[d, :used[d]].all()  # the loop visits the first `used` cells
    # Local indices name the same prompts and the same partition into groups.
    for (d, m), row_ids in ((cell, table[cell]) for cell in np.ndindex(table.shape[:2])):
      real = row_ids < NUM_ROWS
      globals_ = np.array(group)[row_ids[real]]
      locals_ = local_group[d, m][real]
      np.testing.assert_array_equal(
          locals_[:, None] == locals_, globals_[:, None] == globals_)
      assert (locals_ < LAYOUT.rows).all()
      at = local_prompt[d, m][real]
      np.testing.assert_array_equal(prompts.id[d, m][at], np.array(prompt)[row_ids[real]])
      np.testing.assert_array_equal(
          prompts.tokens[d, m][at],
          np.asarray(rollout.prompts.tokens)[np.array(prompt)[row_ids[real]]])
      np.testing.assert_array_equal(
          prompts.length[d, m][at],
          np.asarray(rollout.prompts.length)[np.array(prompt)[row_ids[real]]])
    assert (prompts.length >= 1).all()  # of unused places too

  def test_worked(self):
    # Longest first: group 2 (8), then 0 (6) to the idle device, then 1 (3) to the lighter one.
    group = [0, 1, 2, 0, 1, 2] + [3] * 6
    length = [6, 3, 8, 1, 3, 1] + [2] * 6
    keep = np.arange(NUM_ROWS) < 6
    table, used, _, _, local_group = place(
        make_rollout(group, [0, 1, 2, 0, 1, 2] + [3] * 6, length), jnp.asarray(keep))
    none = NUM_ROWS
    np.testing.assert_array_equal(table[0, 0], [2, 5, none, none])
    np.testing.assert_array_equal(table[1, 0], [0, 3, 1, 4])
    np.testing.assert_array_equal(local_group[1, 0], [0, 0, 2, 2])
    np.testing.assert_array_equal(used, [1, 1])

  def test_a_group_larger_than_a_cell_is_left_out(self):
    group = [0] * 5 + [1] * 4 + [2] * 3
    table, _, *_ = place(make_rollout(group, [0] * 5 + [1] * 4 + [2] * 3, [4] * NUM_ROWS),
                         jnp.ones(NUM_ROWS, bool))
    assert set(np.asarray(table).ravel()) - {NUM_ROWS} == set(range(5, NUM_ROWS))

  def test_nothing_to_place(self):
    table, used, prompts, *_ = place(
        make_rollout([0] * NUM_ROWS, [0] * NUM_ROWS, [1] * NUM_ROWS), jnp.zeros(NUM_ROWS, bool))
    assert (np.asarray(table) == NUM_ROWS).all() and not np.asarray(used).any()
    assert (np.asarray(prompts.length) == 1).all()

  def test_take_gives_zeros_in_empty_places(self):
    table = jnp.array([[[2, 3], [0, 3]]])
    rows = {'x': jnp.array([5.0, 6, 7]), 'y': jnp.array([[True], [True], [True]])}
    out = cells.take(rows, table)
    np.testing.assert_array_equal(out['x'], [[[7, 0], [5, 0]]])
    np.testing.assert_array_equal(out['y'][..., 0], [[[True, False], [True, False]]])


class TestSpans:

  def test_halves_down_to_the_smallest(self):
    assert cells.spans(32) == (8, 16, 32)
    assert cells.spans(4) == (4,)
    assert cells.spans(20) == (10, 20)
    assert cells.spans(1000) == (125, 250, 500, 1000)
    assert cells.spans(33) == (9, 17, 33)


def make_batch(lengths):
  """Cells [D, M, n = 1] whose rows have the given lengths; row numbers in extras."""
  lengths = np.array(lengths)
  devices, num = lengths.shape
  cell = testing.make_cell(np.zeros(devices * num), mask=(
      np.arange(WIDTH) < lengths.reshape(-1, 1)).astype(np.float32),
      extras={'row': jnp.arange(devices * num), 'wide': jnp.zeros((devices * num, WIDTH)),
              'pair': jnp.zeros((devices * num, 3))})
  prompts = jax.tree.map(lambda x: jnp.repeat(x, devices * num, axis=0), cell.prompts)
  lay = lambda x: x.reshape(devices, num, 1, *x.shape[1:])
  return jax.tree.map(lay, cell.replace(prompts=prompts)).replace(
      used=jnp.sum(lengths > 0, axis=1, dtype=jnp.int32))


class TestOverCells:

  @pytest.mark.parametrize('lengths, visited', [
      ([[7, 3, 0], [2, 0, 0]], [(0, 8), (1, 4)]),
      ([[2, 1, 1], [1, 2, 0]], [(0, 2), (1, 2), (2, 2)]),
      ([[0, 0, 0], [0, 0, 0]], []), ([[4, 0, 0], [5, 0, 0]], [(0, 8)])])
  def test_visits_the_used_cells_at_the_width_they_need(self, lengths, visited):
    seen_tokens = []

    def visit(carry, m, at):
      width = at.tokens.shape[2]
      for field in dataclasses.fields(at):
        value = getattr(at, field.name)
        if field.name in ('mask', 'valid', 'advantages', 'version', 'rollout_logp'):
          assert value.shape[2] == width, field.name
      assert at.weights['loss'].shape == at.tokens.shape
      assert at.extras['wide'].shape[2] == width and at.extras['pair'].shape == (2, 1, 3)
      seen_tokens.append(width)
      trace, tokens = carry
      return trace.at[m].set(width), tokens + jnp.sum(at.mask)

    run = jax.jit(lambda batch: cells.over_cells(
        batch, LAYOUT, visit, (jnp.zeros(3, jnp.int32), 0.0)))
    trace, tokens = run(make_batch(lengths))
    expected = np.zeros(3)
    for m, width in visited:
      expected[m] = width
    np.testing.assert_array_equal(trace, expected)
    assert float(tokens) == np.sum(lengths)
    assert sorted(set(seen_tokens)) == [2, 4, 8]  # one branch a span
