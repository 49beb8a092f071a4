"""What is sampled: independent of the schedule, equal to naive generation, resumable."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import types
from rlvr.host import compiles
from rlvr.host import rollouts
from rlvr.policy import heads
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import choose
from rlvr.samplers import decode

VOCAB, WIDTH, STOPS = 13, 12, (2, 9)
CONFIG = dataclasses.replace(tiny.config(vocab_size=VOCAB), tie_embeddings=False)
POLICY = transformer.make_policy(CONFIG)
KEY = jax.random.key(8)  # lengths 4 3 12 12 1 5 12 7, both stop ids among the ends
COUNTS = (3, 1, 4)  # responses of each prompt


@functools.cache
def make_params(seed=0):
  return jax.jit(POLICY.init)(jax.random.key(seed))


@functools.cache
def make_rollout(temperature=1.0, counts=COUNTS, num_rows=8):
  prompts = types.Prompts(
      tokens=jnp.array([[1, 3, 4, 5], [6, 7, 0, 0], [8, 0, 0, 0]]),
      length=jnp.array([4, 2, 1]), id=jnp.arange(3))
  fresh = jax.jit(lambda: decode.grow(
      decode.begin(prompts, num_rows, WIDTH, temperature=temperature), jnp.array(counts)))
  return fresh()[0]


@functools.partial(jax.jit, static_argnames=('slots', 'slots_per_prompt', 'stop_ids'))
def sample(params, rollout, key=KEY, max_iters=None, version=0, *, slots=4, slots_per_prompt=1,
           stop_ids=STOPS, prefix=None):
  return decode.sample(
      params, rollout, key, {}, policy=POLICY, slots=slots, stop_ids=stop_ids, version=version,
      slots_per_prompt=slots_per_prompt, max_iters=max_iters, prefix=prefix)


@functools.cache
def reference():
  """The sample that every schedule must give."""
  rollout, stats = sample(make_params(), make_rollout())
  length = np.asarray(types.lengths(rollout))
  assert len(set(length)) > 3 and length.max() == WIDTH, length  # ragged, some cut off
  return rollout, stats


def assert_same(actual, expected):
  for name in ('tokens', 'valid', 'mask', 'stop', 'version'):
    np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
  np.testing.assert_allclose(actual.rollout_logp, expected.rollout_logp, atol=1e-5)


def naive(params, rollout, key, stop_ids=STOPS):
  """Full forward passes over each whole sequence, no cache, no schedule; same keys."""
  forward = jax.jit(functools.partial(transformer.logits, config=CONFIG))
  prompt_tokens = np.asarray(rollout.prompts.tokens)[rollout.prompt]
  start = np.asarray(rollout.prompts.length)[rollout.prompt]
  num_rows, width = rollout.tokens.shape
  sequence = np.pad(prompt_tokens, ((0, 0), (0, width)))
  rows, running = np.arange(num_rows), np.asarray(rollout.where).copy()
  tokens, logps = np.zeros((num_rows, width), np.int32), np.zeros((num_rows, width), np.float32)
  valid = np.zeros((num_rows, width), bool)
  draw = jax.jit(lambda logits, t: choose.choose(
      logits, jax.vmap(lambda r: jax.random.uniform(
          jax.random.fold_in(jax.random.fold_in(key, r), t), (2,)))(rows),
      rollout.temperature, decode.heads.NO_TRUNCATION))
  for t in range(width):
    logits = forward(params, tokens=sequence)[rows, start + t - 1]
    token, logp = map(np.asarray, draw(logits, t))
    tokens[running, t], logps[running, t], valid[running, t] = token[running], logp[running], True
    sequence[rows, start + t] = token
    running &= ~np.isin(token, stop_ids)
  return tokens, logps, valid


class TestSchedule:

  @pytest.mark.parametrize('slots, slots_per_prompt', [
      (1, 1), (2, 1), (5, 1), (8, 1), (20, 1), (4, 2), (8, 4)])
  def test_never_changes_what_is_sampled(self, slots, slots_per_prompt):
    rollout, stats = sample(
        make_params(), make_rollout(), slots=slots, slots_per_prompt=slots_per_prompt)
    assert_same(rollout, reference()[0])
    assert int(stats.active) == int(jnp.sum(rollout.valid))
    assert int(stats.prefills) == 3

  def test_prompts_are_computed_once(self):
    seen = []

    def prefill(params, prompts):
      seen.append(prompts.tokens.shape)
      return POLICY.prefill(params, prompts)

    counting = POLICY._replace(prefill=prefill)
    run = functools.partial(decode.sample, make_params(), make_rollout(), KEY, {}, policy=counting,
                            slots=4, stop_ids=STOPS)
    jax.eval_shape(run)
    assert seen == [(3, 4)]  # all three prompts, once, for eight rows
    prefix = POLICY.prefill(make_params(), make_rollout().prompts)
    jax.eval_shape(functools.partial(run, prefix=prefix))
    assert seen == [(3, 4)]

  def test_pause_and_resume_at_any_iteration(self):
    for pause in range(1, 15):
      rollout, _ = sample(make_params(), make_rollout(), max_iters=pause)
      rollout, _ = sample(make_params(), rollout, max_iters=1000)
      assert_same(rollout, reference()[0])

  def test_many_pauses_and_other_slots(self):
    rollout = make_rollout()
    calls = 0
    while bool(jnp.any(rollout.where & (rollout.stop == types.RUNNING))):
      slots = (4, 1, 8)[calls % 3]  # a resumed call need not have the same slots
      rollout, _ = sample(make_params(), rollout, max_iters=3, slots=slots)
      calls += 1
      assert calls < 40  # replaying does not count: every call makes progress
    assert calls > 3
    assert_same(rollout, reference()[0])

  def test_a_pause_leaves_prefixes(self):
    whole, _ = reference()
    for pause in (1, 4, 9):
      part, stats = sample(make_params(), make_rollout(), max_iters=pause)
      assert int(stats.iterations) == pause
      length, full = types.lengths(part), types.lengths(whole)
      assert (length <= full).all() and (length < full).any()
      kept = np.arange(WIDTH)[None] < np.asarray(length)[:, None]
      np.testing.assert_array_equal(part.valid, kept)
      np.testing.assert_array_equal(part.tokens, np.where(kept, whole.tokens, 0))
      np.testing.assert_allclose(
          part.rollout_logp, np.where(kept, whole.rollout_logp, 0.0), atol=1e-5)
      running = np.asarray(length < full)
      assert (np.asarray(part.stop)[running] == types.RUNNING).all()

  def test_is_naive_generation_with_the_same_keys(self):
    rollout, _ = reference()
    tokens, logp, valid = naive(make_params(), make_rollout(), KEY)
    np.testing.assert_array_equal(rollout.tokens, tokens)
    np.testing.assert_array_equal(rollout.valid, valid)
    np.testing.assert_allclose(rollout.rollout_logp, logp, atol=1e-5)

  def test_started_rows_come_first(self):
    rollout = make_rollout()
    started = rollout.replace(
        tokens=rollout.tokens.at[6, :2].set(5), valid=rollout.valid.at[6, :2].set(True))
    after, _ = sample(make_params(), started, max_iters=1, slots=1)
    grew = types.lengths(after) - types.lengths(started)
    np.testing.assert_array_equal(grew, np.arange(8) == 6)


class TestNarrowing:
  """Slots that fall idle at the end are given up: only where there are more than a few."""

  ROWS = dict(counts=(10, 6, 8), num_rows=24)

  @pytest.mark.parametrize('slots, slots_per_prompt', [(24, 1), (16, 4)])
  def test_changes_no_token_and_costs_fewer_slots(self, slots, slots_per_prompt):
    few, _ = sample(make_params(), make_rollout(**self.ROWS), slots=4)
    rollout, stats = sample(
        make_params(), make_rollout(**self.ROWS), slots=slots, slots_per_prompt=slots_per_prompt)
    assert_same(rollout, few)
    assert (np.asarray(rollout.stop) != types.RUNNING).all()
    total = int(jnp.sum(rollout.valid))
    assert int(stats.active) == total
    assert total <= int(stats.slots) < int(stats.iterations) * slots

  def test_a_pause_in_any_stage(self):
    whole, stats = sample(make_params(), make_rollout(**self.ROWS), slots=24)
    for pause in range(1, int(stats.iterations)):
      rollout, _ = sample(make_params(), make_rollout(**self.ROWS), max_iters=pause, slots=24)
      assert int(jnp.max(types.lengths(rollout))) == pause
      rollout, _ = sample(make_params(), rollout, max_iters=1000, slots=24)
      assert_same(rollout, whole)


class TestRows:

  def test_scoring_reproduces_rollout_logp_and_masked_places_are_empty(self):
    rollout, _ = reference()
    out = jax.jit(lambda p: POLICY.score(p, rollout, {}))(make_params())
    off = ~np.asarray(rollout.valid)
    np.testing.assert_allclose(
        np.where(off, 0.0, out.logp), rollout.rollout_logp, atol=1e-4)
    for name in ('tokens', 'rollout_logp', 'mask', 'version'):
      assert (np.asarray(getattr(rollout, name))[off] == 0).all(), name
    np.testing.assert_array_equal(rollout.mask, rollout.valid)

  @pytest.mark.parametrize('temperature', [0.7, 1.3])
  @pytest.mark.parametrize('truncation', [
      heads.Truncation(top_k=3), heads.Truncation(top_p=.7), heads.Truncation(min_p=.2),
      heads.Truncation(top_k=5, top_p=.9, min_p=.05)])
  def test_sampler_and_scorer_agree_at_any_temperature_and_truncation(
      self, temperature, truncation):
    # Faults 31 and 32: one distribution on both sides.
    policy = transformer.make_policy(CONFIG, truncation=truncation)
    start = make_rollout(temperature)
    rollout, _ = jax.jit(lambda params: decode.sample(
        params, start, KEY, {}, policy=policy, slots=8, stop_ids=STOPS,
        truncation=truncation))(make_params())
    score = lambda policy: np.where(rollout.valid, jax.jit(
        lambda params: policy.score(params, rollout, {}).logp)(make_params()), 0.0)
    np.testing.assert_allclose(score(policy), rollout.rollout_logp, atol=1e-4)
    assert np.abs(score(POLICY) - rollout.rollout_logp).max() > .05  # the rule matters

  def test_a_stop_id_that_is_also_the_fill_value(self):
    # Fault 1: places come from positions, never from the value of a token.
    rollout, _ = sample(make_params(), make_rollout(), stop_ids=(0,))
    length = np.asarray(types.lengths(rollout))
    stopped = np.asarray(rollout.stop) == types.STOP_TOKEN
    assert stopped.any()
    for row in np.flatnonzero(stopped):
      assert int(rollout.tokens[row, length[row] - 1]) == 0
      assert float(rollout.mask[row].sum()) == length[row]

  def test_any_stop_id_ends_a_row_and_is_kept(self):
    # Fault 2: several stop ids; the stop token itself is trained.
    rollout, _ = reference()
    tokens, length = np.asarray(rollout.tokens), np.asarray(types.lengths(rollout))
    last = tokens[np.arange(8), length - 1]
    for row in range(8):
      assert not np.isin(tokens[row, :length[row] - 1], STOPS).any()
      stopped = last[row] in STOPS
      assert int(rollout.stop[row]) == (types.STOP_TOKEN if stopped else types.BUDGET)
      assert stopped or length[row] == WIDTH
      assert float(rollout.mask[row, length[row] - 1]) == 1.0
    assert set(last) >= set(STOPS), last  # both ids ended something

  def test_members_of_a_group_differ_and_a_rerun_repeats(self):
    # Fault 23: one seed for all members would clone the answer.
    rollout = make_rollout(counts=(4, 0, 0))
    first, again = (
        sample(make_params(), rollout, slots=8, stop_ids=())[0] for _ in range(2))
    tokens = np.asarray(first.tokens)[:4]
    assert len({tuple(row) for row in tokens}) == 4
    np.testing.assert_array_equal(again.tokens, first.tokens)
    other, _ = sample(make_params(), rollout, jax.random.key(9), slots=8, stop_ids=())
    assert not (np.asarray(other.tokens)[:4] == tokens).all(axis=1).any()
    assert not np.asarray(first.valid)[4:].any()  # rows without `where` are left alone

  def test_one_response_a_prompt_is_plain_batching(self):
    rollout, stats = sample(make_params(), make_rollout(counts=(1, 1, 1)), slots=8)
    tokens, logp, valid = naive(make_params(), make_rollout(counts=(1, 1, 1)), KEY)
    np.testing.assert_array_equal(rollout.tokens, tokens)
    np.testing.assert_array_equal(rollout.valid, valid)
    np.testing.assert_allclose(rollout.rollout_logp, logp, atol=1e-5)
    assert int(stats.iterations) == int(jnp.max(types.lengths(rollout)))

  def test_pieces_concatenate_and_each_token_keeps_its_version(self):
    # Fault 9: pieces of 2, 2 and 8 tokens under versions 2, 4 and 6.
    rollout = make_rollout()
    whole, _ = sample(make_params(), rollout, stop_ids=(), slots=8)
    for version, iterations in ((2, 2), (4, 2), (6, 1000)):
      rollout, _ = sample(
          make_params(), rollout, max_iters=iterations, version=version, stop_ids=(), slots=8)
    np.testing.assert_array_equal(rollout.version, np.tile([2, 2, 4, 4] + [6] * 8, (8, 1)))
    assert rollout.rollout_logp.shape == (8, 12) and bool(jnp.all(rollout.rollout_logp < 0))
    np.testing.assert_array_equal(rollout.tokens, whole.tokens)
    np.testing.assert_allclose(rollout.rollout_logp, whole.rollout_logp, atol=1e-5)
    assert (np.asarray(rollout.stop) == types.BUDGET).all() and bool(jnp.all(rollout.mask == 1))

  def test_pieces_keep_the_log_probs_of_the_weights_that_wrote_them(self):
    old, new = make_params(0), make_params(1)
    part, _ = sample(old, make_rollout(), max_iters=3, slots=8, stop_ids=())
    rollout, _ = sample(new, part, slots=8, stop_ids=())
    for params, at in ((old, slice(0, 3)), (new, slice(3, None))):
      logp = jax.jit(lambda p, r=rollout: POLICY.score(p, r, {}).logp)(params)
      np.testing.assert_allclose(rollout.rollout_logp[:, at], logp[:, at], atol=1e-4)

  def test_observations_are_kept_and_stay_untrained(self):
    # Fault 8, the sampler's part: tokens of the environment before a further turn.
    start = make_rollout()
    given = jnp.array([4, 5, 6, 7])
    rollout = start.replace(
        tokens=start.tokens.at[:, :4].set(given), valid=start.valid.at[:, :4].set(True),
        mask=start.mask.at[:, :2].set(1.0), rollout_logp=start.rollout_logp.at[:, :2].set(-0.5),
        version=start.version.at[:, :2].set(1))
    out, _ = sample(make_params(), rollout, version=3, slots=8, stop_ids=())
    np.testing.assert_array_equal(out.tokens[:, :4], np.tile(given, (8, 1)))
    np.testing.assert_array_equal(out.mask, np.tile([1.0, 1, 0, 0] + [1] * 8, (8, 1)))
    np.testing.assert_array_equal(out.version, np.tile([1, 1, 0, 0] + [3] * 8, (8, 1)))
    np.testing.assert_array_equal(out.rollout_logp[:, :4], np.tile([-.5, -.5, 0, 0], (8, 1)))
    logp = jax.jit(lambda p: POLICY.score(p, out, {}).logp)(make_params())
    np.testing.assert_allclose(out.rollout_logp[:, 4:], logp[:, 4:], atol=1e-4)

  def test_finished_rows_are_left_alone(self):
    rollout, stats = sample(make_params(1), reference()[0], version=9)
    jax.tree.map(np.testing.assert_array_equal, rollout, reference()[0])
    assert int(stats.iterations) == 0

  def test_greedy_rows_take_the_best_token(self):
    rollout, _ = sample(make_params(), make_rollout(temperature=0.0))
    tokens, _, valid = naive(make_params(), make_rollout(temperature=0.0), KEY)
    np.testing.assert_array_equal(rollout.tokens, tokens)
    np.testing.assert_array_equal(rollout.valid, valid)
    np.testing.assert_array_equal(rollout.rollout_logp, 0.0)
    np.testing.assert_array_equal(rollout.tokens[0], rollout.tokens[1])


class TestWeights:

  def test_new_weights_recompute_the_prompts(self):
    # Fault 48: nothing of the old weights survives a change, as in a cold engine.
    old, new = make_params(0), make_params(1)
    sample(old, make_rollout())
    warm, _ = sample(new, make_rollout())
    tokens, logp, _ = naive(new, make_rollout(), KEY)
    np.testing.assert_array_equal(warm.tokens, tokens)
    np.testing.assert_allclose(warm.rollout_logp, logp, atol=1e-5)
    # A prefix is only as good as its weights: a stale one would be seen above.
    stale, _ = sample(new, make_rollout(), prefix=jax.jit(POLICY.prefill)(
        old, make_rollout().prompts))
    assert np.abs(np.asarray(stale.rollout_logp - warm.rollout_logp)[:, 0]).max() > 0.1

  def test_a_shared_prefix_is_the_same(self):
    prefix = jax.jit(POLICY.prefill)(make_params(), make_rollout().prompts)
    assert_same(sample(make_params(), make_rollout(), prefix=prefix)[0], reference()[0])


class TestCompiles:

  def test_batches_of_a_bucket_share_a_program(self):
    counter = compiles.Counter()
    run = jax.jit(counter.wrap(lambda params, rollout, key: decode.sample(
        params, rollout, key, {}, policy=POLICY, slots=1, stop_ids=STOPS)))
    for seed in range(3):
      rollout = make_rollout()
      prompts = rollout.prompts.replace(
          tokens=rollout.prompts.tokens + seed, length=jnp.array([1 + seed, 4, 2]))
      jax.block_until_ready(run(
          make_params(seed % 2), rollout.replace(prompts=prompts), jax.random.key(seed)))
    assert counter.count == 1

  def test_ten_prompt_lengths_are_two_programs(self):
    # Fault 53: lengths 1 ... 10, buckets 8 and 16.
    class Spelt:
      def encode_chat(self, messages):
        return list(range(1, 1 + messages))

    counter = compiles.Counter()
    prefill = jax.jit(counter.wrap(POLICY.prefill))
    widths = []
    for length in range(1, 11):
      prompts = rollouts.encode_prompts(
          Spelt(), [{'id': 0, 'messages': length}, {'id': 1, 'messages': 1}], (8, 16))
      np.testing.assert_array_equal(prompts.length, [length, 1])
      jax.block_until_ready(prefill(make_params(), prompts))
      widths.append(prompts.tokens.shape[1])
    assert widths == [8] * 8 + [16] * 2
    assert counter.count == 2


class TestBegin:

  @pytest.mark.parametrize('num_rows, max_tokens, width', [(0, 4, 2), (3, 0, 2), (3, 4, 0)])
  def test_nothing_to_sample_is_an_error(self, num_rows, max_tokens, width):
    prompts = types.Prompts(tokens=jnp.zeros((1, width), jnp.int32), length=jnp.ones(1, jnp.int32),
                            id=jnp.zeros(1, jnp.int32))
    with pytest.raises(ValueError, match=f'num_rows={num_rows}, max_tokens={max_tokens}'):
      decode.begin(prompts, num_rows, max_tokens)

  def test_grow_adds_after_the_rows_in_use_and_counts_what_did_not_fit(self):
    rollout = make_rollout(counts=(0, 2, 1))
    np.testing.assert_array_equal(rollout.where, np.arange(8) < 3)
    np.testing.assert_array_equal(rollout.prompt[:3], [1, 1, 2])
    more, left = decode.grow(rollout, jnp.array([3, 0, 4]))
    assert int(left) == 2 and bool(jnp.all(more.where))
    np.testing.assert_array_equal(more.prompt, [1, 1, 2, 0, 0, 0, 2, 2])
    np.testing.assert_array_equal(more.group, more.prompt)
    same, left = decode.grow(more, jnp.zeros(3, jnp.int32))
    assert int(left) == 0
    jax.tree.map(np.testing.assert_array_equal, same, more)

  @pytest.mark.parametrize('slots, slots_per_prompt', [(0, 1), (4, 3), (4, 0)])
  def test_slots_are_whole_blocks(self, slots, slots_per_prompt):
    with pytest.raises(ValueError, match=f'slots={slots} must be a positive multiple of '
                                         f'slots_per_prompt={slots_per_prompt}'):
      sample(make_params(), make_rollout(), slots=slots, slots_per_prompt=slots_per_prompt)
