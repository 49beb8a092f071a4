"""Every store of REPLAY: nothing invented, whole fields, bounds, one trace, a plain pytree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import replay
from rlvr import testing
from rlvr import types
from rlvr.replay import stores

NAMES = [name for name in replay.REPLAY if name != 'no_store']
CAPACITY = 10
KEY = jax.random.key(0)


def written(step, rewards, *, width=4, padding=0, **options):
  """Rows of one step; extras['row'] is the step's hundred plus the row number."""
  num = sum(map(len, rewards)) + padding
  prompts = [[step + 1, p + 1] for p in range(len(rewards))]
  rollout = testing.make_rollout(
      rewards, padding=padding, prompts=prompts, seed=step, max_tokens=3,
      step=np.full(num, step, np.int32), row=np.arange(num, dtype=np.int32) + 100 * step,
      **options)
  tokens = np.zeros((len(prompts), width), np.int32)
  tokens[:, :2] = rollout.prompts.tokens
  return rollout.replace(prompts=rollout.prompts.replace(tokens=jnp.asarray(tokens)),
                         advantages=rollout.mask * rollout.reward[:, None])


LIKE = written(0, [[1, 0], [1]]).replace(columns=None, column_where=None, old_logp=None)


def filled(part, steps):
  store = part.init(LIKE, CAPACITY)
  for rollout in steps:
    store = part.add(store, rollout)
  return store


@pytest.fixture(name='part', params=NAMES)
def _part(request):
  return replay.REPLAY[request.param](max_age=3)


class TestContract:

  def test_an_empty_store_gives_no_row(self, part):
    drawn = part.sample(part.init(LIKE, CAPACITY), KEY, 5)
    assert drawn.where.shape == (CAPACITY,) and not np.asarray(drawn.where).any()
    store = part.add(part.init(LIKE, CAPACITY), written(0, [[], []], padding=2))
    assert not np.asarray(part.sample(store, KEY, 5).where).any()

  def test_rows_come_back_as_they_were(self, part):
    steps = [written(0, [[1, 0], [0, 1, 1]], padding=1), written(1, [[1, 0, 0]], width=2)]
    drawn = part.sample(filled(part, steps), KEY, 100)
    rows = np.flatnonzero(drawn.where)
    assert sorted(np.asarray(drawn.extras['row'])[rows]) == [0, 1, 2, 3, 4, 100, 101, 102]
    for row in rows:
      step, at = divmod(int(drawn.extras['row'][row]), 100)
      source = steps[step]
      for name in ('tokens', 'mask', 'valid', 'rollout_logp', 'reward', 'advantages', 'version'):
        np.testing.assert_array_equal(
            getattr(drawn, name)[row], getattr(source, name)[at], err_msg=name)
      np.testing.assert_array_equal(
          drawn.prompts.tokens[drawn.prompt[row], :2], source.prompts.tokens[source.prompt[at], :2])
      assert int(drawn.prompts.length[drawn.prompt[row]]) == 2
      assert int(drawn.source[row]) == types.REPLAYED

  def test_groups_and_prompts_are_shared_as_they_were(self, part):
    drawn = part.sample(filled(part, [written(0, [[1, 0], [0, 1, 1]]), written(1, [[1, 0]])]),
                        KEY, 100)
    where = np.asarray(drawn.where)
    named = [(int(r) // 100, int(p)) for r, p in zip(
        drawn.extras['row'], drawn.prompts.tokens[drawn.prompt, 1], strict=True)]
    for field in (drawn.group, drawn.prompt):
      field = np.asarray(field)
      assert field.max() < CAPACITY
      for i in np.flatnonzero(where):
        for j in np.flatnonzero(where):
          assert (field[i] == field[j]) == (named[i] == named[j])

  def test_only_the_fields_of_like_are_kept(self, part):
    drawn = part.sample(filled(part, [written(0, [[1, 0]], other=np.zeros(2))]), KEY, 1)
    assert drawn.columns is None and drawn.old_logp is None and 'other' not in drawn.extras
    assert jax.tree.structure(drawn) == jax.tree.structure(LIKE)

  def test_every_row_is_held_or_counted_and_the_oldest_leave(self, part):
    store, added = part.init(LIKE, CAPACITY), 0
    for step in range(5):
      store = part.add(store, written(step, [[1, 0], [0, 1]]))
      added += 4
      held = np.asarray(store.rows.where)
      assert held.sum() <= CAPACITY
      assert held.sum() + int(store.dropped) == added
      steps = np.asarray(store.rows.extras['step'])[held]
      assert (np.diff(steps) >= 0).all() and steps.min() >= step - 2

  def test_no_row_is_older_than_max_age(self, part):
    store = filled(part, [written(0, [[1, 0]])])
    for step in range(1, 5):
      # Readable at step 1 ... 3: the sample of step `step` comes before its add.
      assert np.asarray(part.sample(store, KEY, 9).where).any() == (step <= 3)
      store = part.add(store, written(step, [[], []], padding=2))

  def test_jit_is_eager_and_num_may_be_traced(self, part):
    store = filled(part, [written(0, [[1, 0], [0, 1]]), written(1, [[1, 0]])])
    traces = []
    @jax.jit
    def sample(store, key, num):
      traces.append(1)
      return part.sample(store, key, num)
    for num in (0, 1, 2, 7):
      np.testing.assert_array_equal(
          sample(store, KEY, num).where, part.sample(store, KEY, num).where)
    assert len(traces) == 1
    more = written(2, [[1, 0], [0, 0]])
    for x, y in zip(jax.tree.leaves(jax.jit(part.add)(store, more)),
                    jax.tree.leaves(part.add(store, more)), strict=True):
      np.testing.assert_array_equal(x, y)

  def test_what_was_drawn_can_be_taken_out(self, part):
    store = filled(part, [written(0, [[1, 0], [0, 1]])])
    drawn = part.sample(store, KEY, 1)
    left = stores.take_out(store, drawn)
    kept, gone = np.asarray(left.rows.where), np.asarray(drawn.where)
    assert gone.any() and not (kept & gone).any() and (kept | gone).sum() == 4
    left = part.add(left, written(1, [[1]]))
    assert int(np.asarray(left.rows.where).sum()) == 5 - gone.sum() and int(left.dropped) == 0


def test_no_store_keeps_nothing():
  assert replay.no_store() is None
