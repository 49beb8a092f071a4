"""What sampling costs: iterations against a simulation of list scheduling, on a scripted policy."""

import functools
from typing import NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from rlvr import types
from rlvr.samplers import decode

NUM_ROWS, WIDTH, STOP, WORD = 8, 10, 3, 1
LENGTHS = (8, 1, 1, 1, 8, 1, 1, 1)


class Prefix(NamedTuple):
  """Prompts by their script: the length of every response, or -k for a NaN at token k."""

  logits: jax.Array
  script: jax.Array


def script_logits(script, position):
  """Certain logits of token `position`: the stop token where the script ends."""
  ids = jnp.where(script == position + 1, STOP, WORD)
  logits = 100.0 * jax.nn.one_hot(ids, 5)
  return jnp.where((script == -position - 1)[:, None], jnp.nan, logits)


def prefill(params, prompts):
  script = params[prompts.id]
  return Prefix(logits=script_logits(script, jnp.zeros_like(script)), script=script)


def decode_step(params, prefix, cache, block_prompt, tokens, t):
  del params
  script = jnp.repeat(prefix.script[block_prompt], tokens.shape[0] // block_prompt.shape[0])
  return script_logits(script, t + 1), cache


POLICY = types.Policy(
    init=None, cast=lambda params: params, score=None, prefill=prefill,
    init_cache=lambda prefix, slots, width: jnp.zeros(()), decode_step=decode_step)


def make_rollout(num_prompts, counts):
  prompts = types.Prompts(
      tokens=jnp.ones((num_prompts, 1), jnp.int32), length=jnp.ones(num_prompts, jnp.int32),
      id=jnp.arange(num_prompts))
  return decode.grow(decode.begin(prompts, NUM_ROWS, WIDTH), jnp.array(counts))[0]


@functools.partial(jax.jit, static_argnames=('slots', 'slots_per_prompt'))
def sample(scripts, rollout, max_iters=None, *, slots, slots_per_prompt=1):
  return decode.sample(scripts, rollout, jax.random.key(0), {}, policy=POLICY, slots=slots,
                       stop_ids=(STOP,), slots_per_prompt=slots_per_prompt, max_iters=max_iters)


def run(lengths, slots, max_iters=None):
  """One row a prompt, of the given lengths."""
  return sample(jnp.array(lengths), make_rollout(NUM_ROWS, [1] * NUM_ROWS), max_iters, slots=slots)


def simulated(units, num_machines):
  """Iterations of greedy list scheduling: the next unit goes to whoever is free first."""
  busy = [0] * num_machines
  for unit in units:
    busy[busy.index(min(busy))] += unit
  return max(busy)


class TestIterations:

  @pytest.mark.parametrize('slots, expected', [(1, 22), (2, 11), (4, 9), (8, 8), (64, 8)])
  def test_worked(self, slots, expected):
    # Card: 9 on four slots, where waiting for whole waves would take 8 + 8 = 16.
    rollout, stats = run(LENGTHS, slots)
    np.testing.assert_array_equal(types.lengths(rollout), LENGTHS)
    assert int(stats.iterations) == expected == simulated(LENGTHS, min(slots, NUM_ROWS))
    assert int(stats.active) == sum(LENGTHS)
    assert int(stats.slots) == expected * min(slots, NUM_ROWS)
    assert int(stats.prefills) == NUM_ROWS
    assert (np.asarray(rollout.stop) == types.STOP_TOKEN).all()
    last = np.asarray(rollout.tokens)[np.arange(NUM_ROWS), np.array(LENGTHS) - 1]
    np.testing.assert_array_equal(last, STOP)

  @hypothesis.settings(max_examples=30, deadline=None, derandomize=True)
  @hypothesis.given(lengths=st.lists(st.integers(1, 12), min_size=NUM_ROWS, max_size=NUM_ROWS),
                    slots=st.sampled_from([1, 3, 4, 8]))
  def test_any_lengths(self, lengths, slots):
    rollout, stats = run(lengths, slots)
    spent = np.minimum(lengths, WIDTH)  # the budget cuts the longest
    np.testing.assert_array_equal(types.lengths(rollout), spent)
    np.testing.assert_array_equal(
        np.asarray(rollout.stop) == types.BUDGET, np.array(lengths) > WIDTH)
    total, longest = int(spent.sum()), int(spent.max())
    iterations = int(stats.iterations)
    assert iterations == simulated(spent.tolist(), slots)
    assert max(longest, -(-total // slots)) <= iterations
    assert iterations <= total / slots + (1 - 1 / slots) * longest
    assert int(stats.active) == total
    if slots == NUM_ROWS:
      assert iterations == longest  # it leaves early, not after WIDTH

  @hypothesis.settings(max_examples=15, deadline=None, derandomize=True)
  @hypothesis.given(
      lengths=st.lists(st.integers(1, 12), min_size=4, max_size=4),
      counts=st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(
          lambda counts: 0 < sum(counts) <= NUM_ROWS))
  def test_blocks_work_on_one_prompt_each(self, lengths, counts):
    rollout, stats = sample(jnp.array(lengths), make_rollout(4, counts), slots=4,
                            slots_per_prompt=2)
    spent = np.minimum(lengths, WIDTH)
    np.testing.assert_array_equal(
        types.lengths(rollout)[:sum(counts)], np.repeat(spent, counts))
    # Rows of a prompt go in twos; the rows of a unit are equally long here.
    units = [n for n, count in zip(spent.tolist(), counts, strict=True)
             for _ in range(-(-count // 2))]
    assert int(stats.iterations) == simulated(units, 2)
    assert int(stats.active) == int(np.repeat(spent, counts).sum())

  @pytest.mark.parametrize('slots', [1, 3, 8])
  def test_pauses_add_up(self, slots):
    total = simulated(LENGTHS, slots)
    whole, _ = run(LENGTHS, slots)
    for pause in range(1, total):
      rollout = make_rollout(NUM_ROWS, [1] * NUM_ROWS)
      for limit in (pause, 100):
        rollout, stats = sample(jnp.array(LENGTHS), rollout, limit, slots=slots)
      jax.tree.map(np.testing.assert_array_equal, rollout, whole)
      # The rest, and no more than replaying the rows that were under way.
      assert total - pause <= int(stats.iterations) <= total

  def test_nothing_to_do(self):
    rollout, stats = sample(jnp.array([4] * NUM_ROWS), make_rollout(NUM_ROWS, [0] * NUM_ROWS),
                            slots=3)
    assert int(stats.iterations) == int(stats.active) == 0
    assert not np.asarray(rollout.valid).any()


class TestAbort:

  def test_a_row_with_nan_logits_ends_and_the_others_go_on(self):
    scripts = (4, -3, 6, -1, 2, -10, 7, 1)
    rollout, stats = run(scripts, 3)
    np.testing.assert_array_equal(types.lengths(rollout), [4, 2, 6, 0, 2, 9, 7, 1])
    aborted = np.array(scripts) < 0
    np.testing.assert_array_equal(np.asarray(rollout.stop) == types.ABORT, aborted)
    assert np.isfinite(rollout.rollout_logp).all()
    assert (np.asarray(rollout.stop)[~aborted] == types.STOP_TOKEN).all()
    # The iteration that met the NaN served its row too.
    assert int(stats.active) == int(jnp.sum(rollout.valid)) + aborted.sum()
    again, stats = sample(jnp.array(scripts), rollout, slots=3)
    assert int(stats.iterations) == 0
    jax.tree.map(np.testing.assert_array_equal, again, rollout)

  def test_a_stop_token_at_the_budget_is_a_stop(self):
    rollout, _ = run((WIDTH, WIDTH + 1) * 4, 8)
    np.testing.assert_array_equal(rollout.stop, [types.STOP_TOKEN, types.BUDGET] * 4)
