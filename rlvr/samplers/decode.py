"""The sampler: prefill once a prompt, fan out to its rows, refill slots, stop early.

A jitted while_loop advances S slots by one token an iteration. Slots come in
blocks of `slots_per_prompt`; a block works on rows of one prompt, whose keys it
reads once, and takes the next such rows when all of its slots are done. When no
row waits any more, the loop goes on with half the slots as soon as half are
idle, so a long tail is cheap. Fresh, paused and drafted rows are one case: a row
that already has valid tokens replays them (they are forced, not drawn) and goes
on from there, so a schedule never changes what is sampled.
"""

from typing import Any

import flax
import jax
import jax.numpy as jnp

from rlvr import types
from rlvr.policy import heads
from rlvr.samplers import choose as choose_lib
from rlvr.samplers import draws
from rlvr.samplers import schedule

Array = jax.Array


@flax.struct.dataclass(kw_only=True)
class Stats:
  """Cost of a call, i32[] each.

  Attributes:
    iterations: decode steps run.
    slots: slot-iterations, idle ones included.
    active: slot-iterations that served a row.
    prefills: prompts computed.
  """

  iterations: Array
  slots: Array
  active: Array
  prefills: Array


@flax.struct.dataclass(kw_only=True)
class _Loop:
  """State of the while_loop; B in `row` marks an idle slot."""

  rollout: types.Rollout
  row: Array  # i32[S]
  t: Array  # i32[S]
  logits: Array  # f32[S, V]
  cache: Any
  block_prompt: Array  # i32[C]
  next_unit: Array  # i32[]
  iterations: Array
  slots: Array  # i32[], slot-iterations
  drawing: Array  # i32[], iterations in which a slot drew a new token
  active: Array


def begin(
    prompts: types.Prompts, num_rows: int, max_tokens: int, *,
    temperature: float | Array = 1.0, num_draws: int = 0,
) -> types.Rollout:
  """An empty rollout of `num_rows` free rows and `max_tokens` positions.

  num_draws: further tokens to be drawn at each prefix (see draws.py).

  Raises:
    ValueError: no rows, no positions, or prompts without positions.
  """
  if num_rows < 1 or max_tokens < 1 or prompts.tokens.shape[1] < 1:
    raise ValueError(
        f'A rollout needs rows, tokens and prompt positions; got num_rows={num_rows}, '
        f'max_tokens={max_tokens}, prompts {prompts.tokens.shape}.')
  ints, wide = jnp.zeros(num_rows, jnp.int32), jnp.zeros((num_rows, max_tokens))
  return types.Rollout(
      prompts=prompts, prompt=ints, group=ints, where=jnp.zeros(num_rows, bool),
      extras=draws.empty(num_rows, max_tokens, num_draws),
      tokens=wide.astype(jnp.int32), valid=wide.astype(bool), mask=wide, rollout_logp=wide,
      version=wide.astype(jnp.int32), source=ints, stop=ints,
      temperature=jnp.broadcast_to(jnp.asarray(temperature, jnp.float32), (num_rows,)))


def grow(rollout: types.Rollout, counts: Array) -> tuple[types.Rollout, Array]:
  """Adds counts i32[P] fresh rows to the prompts, after the rows in use.

  Returns:
    The rollout and i32[], how many of the wanted rows did not fit.
  """
  num_rows = rollout.where.shape[0]
  ends = jnp.cumsum(counts)
  first = jnp.max(jnp.where(rollout.where, jnp.arange(num_rows) + 1, 0), initial=0)
  offset = jnp.arange(num_rows) - first
  new = (offset >= 0) & (offset < ends[-1])
  prompt = jnp.searchsorted(ends, offset, side='right').astype(jnp.int32)
  pick = lambda fresh, old: jnp.where(new, fresh, old)
  rollout = rollout.replace(
      where=rollout.where | new, prompt=pick(prompt, rollout.prompt),
      group=pick(prompt, rollout.group), source=pick(types.FRESH, rollout.source),
      stop=pick(types.RUNNING, rollout.stop))
  return rollout, jnp.maximum(first + ends[-1] - num_rows, 0)


def sample(
    params: Any,
    rollout: types.Rollout,
    key: Array,
    knobs: dict[str, Array],
    *,
    policy: types.Policy,
    slots: int,
    stop_ids: tuple[int, ...],
    version: Array | int = 0,
    slots_per_prompt: int = 1,
    max_iters: int | None = None,
    truncation: heads.Truncation = heads.NO_TRUNCATION,
    prefix: Any = None,
) -> tuple[types.Rollout, Stats]:
  """Continues every row with `where` and stop == RUNNING; leaves the others alone.

  Row r draws token t with fold_in(fold_in(key, r), t), so neither the number of
  slots, nor refill, nor a pause changes a token. Started rows come first, then
  the lowest row.

  Args:
    params: the policy's.
    rollout: from `begin` and `grow`, or an earlier call.
    key: typed key of this sampling phase; the same for a resumed call. Consumed.
    knobs: not read here; wrappers that move sampling settings take them.
    policy: the functions to call.
    slots: rows in flight at once; more than there are rows costs nothing.
    stop_ids: any of them ends a row; the stop token is kept and trained.
    version: policy step recorded for every token drawn now.
    slots_per_prompt: slots of a block; 1 refills slot by slot (exact greedy list
      scheduling), G reads a prompt's keys once for G rows. Divides `slots`.
    max_iters: pause after so many iterations that drew something, None to finish
      all rows. Replaying does not count, so every call makes progress.
    truncation: the support rule; `rollout_logp` is under the truncated policy.
    prefix: the prompts' K/V of these params, where another call shares it.

  Returns:
    The rollout (tokens, valid, mask, rollout_logp, version, stop) and its cost.
    A row whose logits are NaN ends as ABORT with the tokens it had. `mask` of a
    row that was already valid is kept, so observations stay untrained.

  Raises:
    ValueError: slots or slots_per_prompt out of range.
  """
  num_rows, max_tokens = rollout.tokens.shape
  if slots < 1 or slots_per_prompt < 1 or slots % slots_per_prompt:
    raise ValueError(
        f'slots={slots} must be a positive multiple of slots_per_prompt={slots_per_prompt}.')
  # Slots beyond what the rows can fill would only cost work.
  most = -(-num_rows // slots_per_prompt) * slots_per_prompt
  slots = min(slots, most)
  num_blocks = slots // slots_per_prompt
  params = policy.cast(params)
  if prefix is None:
    prefix = policy.prefill(params, rollout.prompts)
  units, num_units = schedule.units(rollout, slots_per_prompt)
  row_keys = jax.vmap(lambda r: jax.random.fold_in(key, r))(jnp.arange(num_rows))
  started = types.lengths(rollout)

  def body(loop):
    r, row, t = loop.rollout, loop.row, loop.t
    busy = row < num_rows
    safe = jnp.minimum(row, num_rows - 1)

    # Choose: draw, unless the row already has this token.
    keys = jax.vmap(jax.random.fold_in)(row_keys[safe], t)
    uniforms = jax.vmap(lambda k: jax.random.uniform(k, (2,)))(keys)
    drawn, logp = choose_lib.choose(loop.logits, uniforms, r.temperature[safe], truncation)
    forced = t < started[safe]
    token = jnp.where(forced, r.tokens[safe, t], drawn)
    broken = jnp.isnan(logp) & ~forced
    write = busy & ~forced & ~broken
    to = jnp.where(write, row, num_rows)  # out of range: dropped
    put = lambda array, value: array.at[to, t].set(value, mode='drop')

    # Finish: a stop id, the budget, or logits that are not numbers.
    stopped = write & jnp.isin(token, jnp.array(stop_ids, jnp.int32))
    spent = busy & ~broken & (t + 1 == max_tokens)
    stop = jnp.where(stopped, types.STOP_TOKEN, jnp.where(spent, types.BUDGET, types.ABORT))
    done = busy & (stopped | spent | broken)
    r = r.replace(
        tokens=put(r.tokens, token), valid=put(r.valid, True), mask=put(r.mask, 1.0),
        rollout_logp=put(r.rollout_logp, logp), version=put(r.version, version),
        extras=draws.record(
            r.extras, put, loop.logits, keys, r.temperature[safe], truncation),
        stop=r.stop.at[jnp.where(done, row, num_rows)].set(stop, mode='drop'))

    # Decode: every slot moves on one position (idle ones in vain).
    logits, cache = policy.decode_step(
        params, prefix, loop.cache, loop.block_prompt, token, t)
    return loop.replace(
        rollout=r, row=jnp.where(done, num_rows, row), t=jnp.minimum(t + 1, max_tokens - 1),
        logits=logits, cache=cache, iterations=loop.iterations + 1,
        slots=loop.slots + row.shape[0], active=loop.active + jnp.sum(busy),
        drawing=loop.drawing + jnp.any(busy & ~forced))

  def refill(loop):
    """Blocks whose slots are all done take the next units; only pointers move."""
    free = jnp.all(loop.row.reshape(num_blocks, -1) == num_rows, axis=1)
    unit = loop.next_unit + jnp.cumsum(free) - 1
    got = free & (unit < num_units)
    rows = units[jnp.minimum(unit, num_rows - 1)]
    fresh = jnp.repeat(got, slots_per_prompt, total_repeat_length=slots)
    block_prompt = jnp.where(got, rollout.prompt[rows[:, 0]], loop.block_prompt)
    slot_prompt = jnp.repeat(block_prompt, slots_per_prompt, total_repeat_length=slots)
    return loop.replace(
        row=jnp.where(fresh, rows.reshape(-1), loop.row), t=jnp.where(fresh, 0, loop.t),
        logits=jnp.where(fresh[:, None], prefix.logits[slot_prompt], loop.logits),
        block_prompt=block_prompt, next_unit=loop.next_unit + jnp.sum(got))

  def narrow(loop, width):
    """The first `width` busy slots, each a block of its own."""
    keep = jnp.argsort(loop.row == num_rows, stable=True)[:width]
    row = loop.row[keep]
    return loop.replace(
        row=row, t=loop.t[keep], logits=loop.logits[keep],
        block_prompt=rollout.prompt[jnp.minimum(row, num_rows - 1)],
        cache=policy.take_slots(loop.cache, keep))

  def running(loop, next_width):
    num_busy = jnp.sum(loop.row < num_rows)
    more = (num_busy > next_width) | (loop.next_unit < num_units)
    return more if max_iters is None else more & (loop.drawing < max_iters)

  zero = jnp.zeros((), jnp.int32)
  loop = refill(_Loop(
      rollout=rollout, row=jnp.full(slots, num_rows), t=jnp.zeros(slots, jnp.int32),
      logits=jnp.zeros((slots, prefix.logits.shape[1])), block_prompt=jnp.zeros(
          num_blocks, jnp.int32),
      cache=policy.init_cache(prefix, slots, max_tokens), next_unit=zero, iterations=zero,
      slots=zero, drawing=zero, active=zero))
  # While rows wait, all slots work; once none does, the loop narrows as slots fall idle.
  widths = schedule.widths(slots) if policy.take_slots is not None else [slots]
  for width, next_width in zip(widths, [*widths[1:], 0], strict=True):
    if width < slots:
      loop = narrow(loop, width)
    advance = (lambda x: refill(body(x))) if width == slots else body
    loop = jax.lax.while_loop(
        lambda x, n=next_width: running(x, n), advance, loop)
  stats = Stats(iterations=loop.iterations, slots=loop.slots, active=loop.active,
                prefills=jnp.int32(rollout.prompts.tokens.shape[0]))
  return loop.rollout, stats
