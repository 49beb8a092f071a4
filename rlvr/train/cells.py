"""Cells: how rows are laid out for devices and microbatches, and visited.

A cell holds whole groups with the prompts they need, under local indices, so
that nothing is gathered across devices. The number of cells is fixed, the
number that runs is not: an unused cell costs memory and no time.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr import types

Array = jax.Array


class Layout(NamedTuple):
  """Static sizes of a batch.

  Attributes:
    devices: D, shares of the batch that different devices compute.
    cells: M, most microbatches of a device.
    rows: n, rows of a cell; at least the largest group.
    prompts: p, prompts of a cell; all p are computed, so it should be tight.
    spans: response widths that a cell may be trimmed to, ascending, the last
      being T; each is one branch of the compiled update.
  """

  devices: int
  cells: int
  rows: int
  prompts: int
  spans: tuple[int, ...]


def spans(max_tokens: int, smallest: int = 8) -> tuple[int, ...]:
  """Widths max_tokens, max_tokens / 2, ... down to `smallest`, at most four, ascending."""
  widths = [max_tokens]
  while len(widths) < 4 and widths[-1] // 2 >= smallest:
    widths.append(-(-widths[-1] // 2))
  return tuple(reversed(widths))


def place(rollout: types.Rollout, keep: Array, layout: Layout) -> tuple[Array, Array]:
  """Which row goes where.

  Groups are taken longest response first; each goes to the device with the
  least load (tokens) that has a cell with room, into its first such cell.

  Args:
    rollout: reads group, prompt, valid, prompts.
    keep: bool[B], rows to place.
    layout: the sizes to fill.

  Returns:
    i32[D, M, n] row numbers, B where a place is empty, and i32[D], the cells in
    use. Rows of a group that fits nowhere are left out; compare counts.
  """
  num_rows = keep.shape[0]
  length = jnp.where(keep, types.lengths(rollout), 0)
  segment = lambda x, reduce: reduce(x, rollout.group, num_segments=num_rows)
  size = segment(keep.astype(jnp.int32), jax.ops.segment_sum)
  load = segment(length, jax.ops.segment_sum)
  longest = segment(jnp.where(keep, length, -1), jax.ops.segment_max)
  # Distinct prompts of a group, and each row's rank in it, from one sorted pass.
  order = jnp.lexsort((rollout.prompt, rollout.group, ~keep))
  group, prompt = rollout.group[order], rollout.prompt[order]
  changes = (group[1:] != group[:-1]) | (prompt[1:] != prompt[:-1])
  new = jnp.concatenate([jnp.ones(1, bool), changes])
  num_prompts = jax.ops.segment_sum((new & keep[order]).astype(jnp.int32), group,
                                    num_segments=num_rows)
  start = jax.ops.segment_min(jnp.where(keep[order], jnp.arange(num_rows), num_rows), group,
                              num_segments=num_rows)
  rank = jnp.zeros(num_rows, jnp.int32).at[order].set(jnp.arange(num_rows) - start[group])

  queue = jnp.argsort(jnp.where(size > 0, -longest, 1), stable=True)

  def assign(i, carry):
    rows, prompts, device_load, where_to = carry
    g = queue[i]
    fits = (rows + size[g] <= layout.rows) & (prompts + num_prompts[g] <= layout.prompts)
    open_device = jnp.any(fits, axis=1)
    device = jnp.argmin(jnp.where(open_device, device_load, jnp.iinfo(jnp.int32).max))
    cell = jnp.argmax(fits[device])
    placed = open_device[device] & (size[g] > 0)
    add = lambda x, amount: x.at[device, cell].add(jnp.where(placed, amount, 0))
    flat = (device * layout.cells + cell) * layout.rows + rows[device, cell]
    return (add(rows, size[g]), add(prompts, num_prompts[g]),
            device_load.at[device].add(jnp.where(placed, load[g], 0)),
            where_to.at[g].set(jnp.where(placed, flat, -1)))

  grid = jnp.zeros((layout.devices, layout.cells), jnp.int32)
  rows, _, _, where_to = jax.lax.fori_loop(
      0, jnp.sum(size > 0), assign,
      (grid, grid, jnp.zeros(layout.devices, jnp.int32), jnp.full(num_rows, -1, jnp.int32)))
  base = where_to[rollout.group]
  capacity = layout.devices * layout.cells * layout.rows
  target = jnp.where(keep & (base >= 0), base + rank, capacity)
  table = jnp.full(capacity, num_rows, jnp.int32).at[target].set(
      jnp.arange(num_rows, dtype=jnp.int32), mode='drop')
  table = table.reshape(layout.devices, layout.cells, layout.rows)
  return table, jnp.sum(rows > 0, axis=1, dtype=jnp.int32)


def take(rows: Any, table: Array) -> Any:
  """Leaves [B, ...] -> [D, M, n, ...]; empty places get zeros."""
  def leaf(x):
    padded = jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])
    return padded[table]
  return jax.tree.map(leaf, rows)


def localise(rollout: types.Rollout, table: Array, num_prompts: int):
  """The prompts of each cell and its rows' indices into them.

  Returns:
    Prompts with leaves [D, M, p, ...] (unused places have length 1 and token
    0, so that nothing divides by zero), prompt i32[D, M, n] and group
    i32[D, M, n], both local; 0 in empty places.
  """
  num_rows = rollout.where.shape[0]
  devices, cells, n = table.shape
  flat = table.reshape(devices * cells, n)
  real = flat < num_rows
  safe = jnp.minimum(flat, num_rows - 1)
  total = rollout.prompts.tokens.shape[0]
  cell = jnp.arange(devices * cells)[:, None]
  prompt = jnp.where(real, rollout.prompt[safe], total)
  present = jnp.zeros((devices * cells, total), bool).at[
      cell, prompt].set(True, mode='drop')
  local_of = jnp.cumsum(present, axis=1) - 1
  which = jnp.full((devices * cells, num_prompts), total, jnp.int32)
  which = which.at[cell, jnp.where(present, local_of, num_prompts)].set(
      jnp.arange(total, dtype=jnp.int32)[None], mode='drop')
  local = jnp.take_along_axis(local_of, jnp.minimum(prompt, total - 1), axis=1)
  prompts = take(rollout.prompts, which.reshape(devices, cells, num_prompts))
  prompts = prompts.replace(length=jnp.maximum(prompts.length, 1))
  # A local group is the place of its first row in the cell: dense below n.
  group = jnp.where(real, rollout.group[safe], -1)
  first = jnp.argmax(group[:, :, None] == group[:, None, :], axis=2)
  shape = (devices, cells, n)
  return (prompts, jnp.where(real, local, 0).reshape(shape).astype(jnp.int32),
          jnp.where(real, first, 0).reshape(shape).astype(jnp.int32))


def over_cells(
    batch: types.Batch, layout: Layout, visit: Callable[[Any, Array, types.Batch], Any], init: Any
) -> Any:
  """carry = visit(carry, m, cells) for each cell number in use, trimmed to a span.

  `cells` has leaves [D, n, ...]; its T is the smallest span that holds the
  longest response of the D cells, so `visit` is compiled once a span. The bound
  is traced: unused cells cost no time.
  """
  used = batch.used
  body = batch.replace(used=None)
  widest = jnp.max(jnp.sum(body.valid, axis=-1), axis=(0, 2))  # i32[M]
  widths = jnp.array(layout.spans)

  def at_span(span, carry, m):
    cells = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, m, 1, keepdims=False), body)
    return visit(carry, m, trim(cells, span))

  def step(m, carry):
    index = jnp.searchsorted(widths, widest[m])
    branches = [lambda carry, m, span=span: at_span(span, carry, m) for span in layout.spans]
    return jax.lax.switch(index, branches, carry, m)

  if layout.cells == 1:
    # Without the loop, sums that start at 0 cost nothing; an empty cell has no weight.
    return step(0, init)
  return jax.lax.fori_loop(0, jnp.max(used), step, init)


def trim(cells: types.Batch, span: int) -> types.Batch:
  """The first `span` response positions of every per-token field of [D, n, T] cells."""
  width = cells.tokens.shape[2]
  if span == width:
    return cells
  per_token = ('tokens', 'valid', 'mask', 'rollout_logp', 'advantages', 'version', 'weights',
               'correction', 'old_logp', 'ref_logp', 'gen_logp', 'value', 'query_ids')
  cut = lambda x: x[:, :, :span]
  changes = {name: jax.tree.map(cut, getattr(cells, name)) for name in per_token}
  extras = {name: cut(x) if x.ndim >= 3 and x.shape[2] == width else x
            for name, x in cells.extras.items()}
  return cells.replace(extras=extras, **changes)
