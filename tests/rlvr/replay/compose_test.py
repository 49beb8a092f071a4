"""How stored rows come back: counts, ages, stored advantages and log-probs, and ReMix's trace."""

import functools
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'train'))

import direct  # noqa: E402

from rlvr import advantages  # noqa: E402
from rlvr import aggregate  # noqa: E402
from rlvr import corrections  # noqa: E402
from rlvr import memories  # noqa: E402
from rlvr import memory  # noqa: E402
from rlvr import replay  # noqa: E402
from rlvr import selection  # noqa: E402
from rlvr.replay import compose  # noqa: E402
from rlvr.train import prepare  # noqa: E402

T = 4  # response positions
MAX_STEPS = 9


def generated(step, num_prompts, size, num_used, width=2):
  """A step's rollout: `num_used` groups of `size` rows with answers of any length, right or wrong.

  extras['row'] is unique over the run and names the row's log-probs in the params.
  """
  rng = np.random.default_rng(step)
  rewards = [rng.integers(0, 2, size).tolist() for _ in range(num_used)]
  empty = (num_prompts - num_used) * size
  rollout = direct.make_rollout(
      rewards + [[]] * (num_prompts - num_used), lengths=rng.integers(1, T + 1, num_used * size),
      max_tokens=T, padding=empty, prompts=[[step + 1, p + 1] for p in range(num_prompts)],
      version=np.full((num_prompts * size, T), step, np.int32))
  first = step * num_prompts * size
  return rollout.replace(extras={'row': rollout.extras['row'] + first})


class Run:
  """prepare and finish over steps, as the loop calls them; `drift` moves the params each step."""

  def __init__(self, recipe, *, num_prompts, size, capacity, knobs=None, drift=0.0):
    self.num_prompts, self.size, self.drift = num_prompts, size, drift
    num_rows = num_prompts * size
    layout = direct.make_layout(num_cells=num_prompts, rows=size, prompts=size, spans=(T,))
    table = direct.make_rollout([[1] * (num_rows * MAX_STEPS)], max_tokens=T)
    self.state = direct.make_state(table, knobs={
        'coef_pg': 1.0, 'epochs': 2.0, compose.SHARE: 0.4, **(knobs or {})})
    if recipe.score_ref:
      self.state = self.state.replace(anchors={'ref': self.state.params})
    rollout = generated(0, num_prompts, size, num_prompts)
    plain = prepare.make_prepare(
        recipe._replace(replay=None, compensation=None, score_last=False), direct.POLICY, layout)
    like = jax.eval_shape(plain, rollout, self.state)[1]
    like = jax.eval_shape(lambda r: compose.stored_fields(compose.stamped(r, r.reward)), like)
    kept = []
    if recipe.replay is not None:
      kept.append(compose.remember_fresh(recipe.replay, like, capacity))
    if recipe.compensation is not None:
      kept.append(compose.remember_left_out(recipe.compensation.store, like, capacity))
    kept += recipe.memories
    for part in kept:
      self.state = part.init(self.state, num_prompts)
    self._prepare = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))
    self._finish = jax.jit(memory.make_finish(tuple(kept)))

  def step(self):
    """(batches, rollout, metrics, state before) of the next step."""
    before, step = self.state, int(self.state.step)
    num_fresh = self.num_prompts
    if compose.JOIN in before.method:
      num_fresh -= int(compose.num_replayed(before, self.num_prompts))
    rollout = generated(step, self.num_prompts, self.size, num_fresh)
    batches, rollout, metrics = self._prepare(rollout, before)
    params = jax.tree.map(lambda x: x + self.drift, before.params)
    self.state = self._finish(before.replace(params=params), rollout, {})
    return batches, rollout, {k: float(v) for k, v in metrics.items()}, before


def rows(batch):
  """(row numbers, field getter) of the rows placed in a batch."""
  where = np.asarray(batch.where)
  return np.asarray(batch.extras['row'])[where], lambda x: np.asarray(x)[where]


def rorecomp(first=1.0, last=1.0, **changes):
  part = compose.Compensation(replay.fifo_rows(max_age=3), first, last, 4)
  return direct.make_recipe(
      advantage=advantages.grpo, selection=functools.partial(selection.rorecomp, share=.5),
      weigh=functools.partial(aggregate.seq_sum_constant, constant=1.0), advantage_only=False,
      score_first=True, compensation=part, **changes)


class TestCompensation:

  @pytest.mark.parametrize('first, last', [(0.7, 0.7), (0.0, 0.0)])
  def test_every_row_is_counted_once(self, first, last):
    run = Run(rorecomp(first, last), num_prompts=3, size=5, capacity=15, drift=.1)
    made = priority = compensated = left_out = 0
    seen, born = set(), {}
    for step in range(MAX_STEPS):
      (main, rest), rollout, metrics, _ = run.step()
      assert made == (priority + compensated + left_out + metrics['expired_rows']
                      + metrics['buffered_rows'])
      for row, advantage, logp in zip(rollout.extras['row'], rollout.advantages,
                                      rollout.old_logp, strict=True):
        born[int(row)] = step, np.asarray(advantage), np.asarray(logp)
      assert metrics['pack_left_out'] == 0
      for batch in (main, rest):
        numbers, take = rows(batch)
        assert not seen & set(numbers.tolist())  # no row is trained twice
        seen |= set(numbers.tolist())
        for row, advantage, logp in zip(numbers, take(batch.advantages), take(batch.old_logp),
                                        strict=True):
          birth, own, own_logp = born[int(row)]
          np.testing.assert_array_equal(advantage, own)
          np.testing.assert_array_equal(logp, own_logp)  # of its own step: the params drift
          assert (birth == step) if batch is main else (1 <= step - birth <= 3)
      made += 15
      priority += len(rows(main)[0])
      compensated += metrics['compensation_rows']
      left_out += metrics['compensation_left_out']
      assert len(rows(rest)[0]) == metrics['compensation_rows'] in (0, len(rows(main)[0]))
    assert (compensated > 0) == (first > 0) and (left_out > 0) == (first < 1)

  def test_both_batches_sum_to_grpos_gradient_at_equal_weights(self):
    """p = 1, weights times the rows of the batch: each row's share is that of plain GRPO."""
    run = Run(rorecomp(), num_prompts=3, size=4, capacity=12)
    plain = Run(direct.make_recipe(
        advantage=advantages.grpo, advantage_only=False, score_first=True,
        weigh=functools.partial(aggregate.seq_sum_constant, constant=1.0)),
        num_prompts=3, size=4, capacity=0)
    expected, got = {}, {}
    for _ in range(MAX_STEPS):
      for one, to in ((run, got), (plain, expected)):
        for batch in one.step()[0]:
          numbers, take = rows(batch)
          terms = take(batch.weights['pg'] * batch.advantages) * len(numbers)
          to |= dict(zip(numbers.tolist(), terms, strict=True))
    assert len(got) > .7 * len(expected) and any(x.any() for x in got.values())
    for row, terms in got.items():
      np.testing.assert_allclose(terms, expected[row], rtol=1e-6)

  def test_it_needs_scores(self):
    with pytest.raises(ValueError, match='config.score_first=True'):
      Run(rorecomp()._replace(score_first=False), num_prompts=3, size=4, capacity=12)


class TestCosine:

  @pytest.mark.parametrize('step, expected', [(0, 1), (5, .5), (10, 0), (99, 0)])
  def test_worked(self, step, expected):
    value = compose.cosine(jnp.int32(step), first=1.0, last=0.0, num_steps=10)
    assert float(value) == pytest.approx(expected, abs=1e-6)

  def test_ends(self):
    assert float(compose.cosine(jnp.int32(5), first=.9, last=.5, num_steps=10)) == pytest.approx(.7)
    assert float(compose.cosine(jnp.int32(0), first=.9, last=.5, num_steps=0)) == pytest.approx(.9)


def remix(at=4, max_age=2):
  return direct.make_recipe(
      advantage=advantages.grpo, advantage_only=False, score_first=True, score_ref=True,
      score_old=True, score_last=True,
      correction=functools.partial(corrections.token_truncated, cap=1.5),
      replay=replay.recent_groups(max_age=max_age),
      memories=(memories.last_policy(), memories.reincarnation(at=at)))


class TestJoin:

  def test_the_trace_of_remix(self):
    run = Run(remix(), num_prompts=10, size=2, capacity=40, drift=.125)
    fresh, passes, base, born = [], [], [], {}
    for step in range(7):
      (batch,), rollout, metrics, before = run.step()
      fresh.append(metrics['rows'] / 2)
      passes.append(int(before.knobs['epochs']))
      base.append(float(before.anchors['ref']['logp'][0, 0]))
      assert metrics['rows'] + metrics['replayed_rows'] == 20
      for row, advantage, logp in zip(rollout.extras['row'], rollout.advantages,
                                      rollout.gen_logp, strict=True):
        born.setdefault(int(row), (step, np.asarray(advantage), np.asarray(logp)))
      numbers, take = rows(batch)
      replayed = 0
      for row, advantage, logp, at in zip(numbers, take(batch.advantages), take(batch.old_logp),
                                          take(batch.extras['step']), strict=True):
        birth, own, own_logp = born[int(row)]
        assert step - birth <= 2 and at == step
        np.testing.assert_array_equal(advantage, own)  # formed among its own group
        written = own_logp != 0
        np.testing.assert_allclose(
            (logp - own_logp)[written], .125 * (step - birth), atol=1e-6)  # scored again
        replayed += birth < step
      # Sampler and trainer are compared under the weights that wrote the row.
      mask = take(batch.mask) != 0
      apart = np.exp(take(batch.gen_logp) - take(batch.rollout_logp))
      np.testing.assert_allclose(take(batch.correction)[mask], np.minimum(apart, 1.5)[mask],
                                 rtol=1e-4)
      assert len(numbers) == 20 and replayed == metrics['replayed_rows']
    assert fresh == [10, 6, 6, 6, 10, 10, 10] and passes == [2, 2, 2, 2, 1, 1, 1]
    np.testing.assert_allclose(np.array(base) - base[0], [0, 0, 0, 0, .5, .5, .5], atol=1e-6)

  def test_the_last_policy_is_that_of_the_step_before(self):
    run = Run(remix(), num_prompts=3, size=2, capacity=12, drift=.125)
    for step in range(4):
      (batch,), _, _, before = run.step()
      expected = max(step - 1, 0) * .125
      moved = before.anchors['prev']['logp'][0, 0] - (before.params['logp'][0, 0] - .125 * step)
      assert float(moved) == pytest.approx(expected, abs=1e-6)
      where = np.asarray(batch.mask) != 0
      lag = np.asarray(batch.old_logp - batch.extras['prev_logp'])[where]
      np.testing.assert_allclose(lag, .125 * min(step, 1), atol=1e-6)

  def test_replayed_groups_change_no_advantage_and_whole_groups_come(self):
    run = Run(remix(at=99), num_prompts=5, size=3, capacity=30)
    for _ in range(5):
      (batch,), rollout, _, _ = run.step()
      alone = np.asarray(advantages.grpo(rollout))
      np.testing.assert_allclose(rollout.advantages[:, 0], alone, rtol=1e-6)
      numbers, take = rows(batch)
      assert all(sum(numbers // 3 == n // 3) == 3 for n in numbers)
      for key in set(take(batch.advantages)[:, 0].tolist()):
        assert np.isfinite(key)


class TestNumReplayed:

  @pytest.mark.parametrize('share, held, expected', [
      (.4, 10, 4), (.4, 3, 3), (.4, 0, 0), (0.0, 10, 0), (.45, 10, 5), (.25, 10, 3), (.24, 10, 2)])
  def test_worked(self, share, held, expected):
    part = replay.recent_groups()
    rollout = generated(0, 10, 2, 10)
    rollout = rollout.replace(extras=rollout.extras | {'step': jnp.zeros(20, jnp.int32)})
    store = part.init(rollout, 20)
    used = rollout.replace(where=rollout.where & (rollout.group < held))
    state = direct.make_state(rollout, knobs={compose.SHARE: share}).replace(
        method={compose.JOIN: part.add(store, used)})
    assert int(compose.num_replayed(state, 10)) == expected


class TestReincarnation:

  def test_at_zero_is_on_policy_from_the_start(self):
    run = Run(remix(at=0), num_prompts=3, size=2, capacity=12, drift=.125)
    for _ in range(3):
      _, _, metrics, before = run.step()
      assert metrics['replayed_rows'] == 0 and float(before.knobs['epochs']) == 1
    start = float(run.state.params['logp'][0, 0]) - 3 * .125
    assert float(run.state.anchors['ref']['logp'][0, 0]) == pytest.approx(start)

  def test_its_option(self):
    with pytest.raises(ValueError, match='reincarnation: at=-1'):
      memories.reincarnation(at=-1)
