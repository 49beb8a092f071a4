"""Tests of experiments.stores, and of what further rounds need of a config."""

import jax
import pytest

from experiments import build
from experiments import checks
from experiments import sampling
from experiments import stores
from experiments.configs import base
from experiments.configs import remix
from experiments.configs import rorecomp
from experiments.configs import v0_5
from rlvr.replay import compose


def changed(c, **changes):
  c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return c


class TestCheck:

  @pytest.mark.parametrize('config, changes, sentence', [
      (remix, {'score_first': False}, 'config.replay keeps rows .* --config.score_first=True'),
      (rorecomp, {'score_first': False}, 'config.compensation keeps rows'),
      (remix, {'batch__replay_share': 1.5}, 'replay_share is 1.5; it must lie in 0 ... 1'),
      (rorecomp, {'batch__compensation_last': -.1}, 'compensation_last is -0.1'),
      (remix, {'batch__replay_share': .95}, 'leaves none of the 8 prompts'),
      (remix, {'rollout__max_rounds': 2}, 'max_rounds is 2; dynamic sampling'),
      (v0_5, {'rollout__extra_rows': -1}, 'extra_rows is -1; it must be at least 0'),
      (base, {'rollout__extra_rows': 4}, "config.allocator is 'no_extra'"),
      (v0_5, {'rollout__max_rounds': 2}, 'max_rounds 2; it needs an allocator'),
      (v0_5, {'allocator__add': 5}, 'allocator.add is 5; a round samples at most .* 4'),
      (v0_5, {'allocator__most': 40}, 'allocator.most is 40; .* batch.cell_rows 32'),
      (v0_5, {'allocator__most': 3}, 'allocator.most is 3; it must be at least'),
  ])
  def test_what_does_not_fit(self, config, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
      checks.check(changed(config.get_config('size=tiny'), **changes))

  def test_the_configs_pass(self):
    for config in (remix, rorecomp, v0_5):
      checks.check(config.get_config('size=tiny'))


class TestMemories:

  def test_room_for_the_rows_that_can_be_drawn(self):
    c = remix.get_config('size=tiny,compensation=fifo_rows')
    run, _ = build.build(changed(c, model__warm_start_steps=0), None)
    held = run.abstract.method[compose.JOIN].rows
    assert held.where.shape == (2 * 64,)  # two steps
    assert held.prompts.tokens.shape == (2 * 64, 16)  # the largest bucket
    assert held.columns is None and held.gen_logp.shape == held.tokens.shape
    assert run.abstract.method[compose.COMPENSATION].rows.where.shape == (64,)
    rollout = sampling.abstract_rollout(c, 8)
    batches = jax.eval_shape(run.prepare, rollout, run.abstract)[0]
    assert len(batches) == 2  # the same shapes: one program
    assert jax.tree.map(lambda x: x.shape, batches[0]) == jax.tree.map(
        lambda x: x.shape, batches[1])

  def test_none_without_a_store(self):
    c = base.get_config('size=tiny')
    recipe = build.resolve_recipe(c)
    assert stores.memories(c, recipe, None, None, None) == ()
    assert stores.num_fresh(c, recipe)(None) == c.rollout.prompts


class TestMakeLayout:

  def test_a_rest_may_need_a_prompt_a_row(self):
    layout = build.make_layout(rorecomp.get_config('size=tiny'))
    assert (layout.cells, layout.rows, layout.prompts) == (4, 16, 16)

  def test_room_for_ragged_groups(self):
    """16 prompts of 4 to 16 rows, 96 in all: no order of them leaves one out."""
    c = v0_5.get_config('size=tiny')
    layout = build.make_layout(c)
    assert sampling.most_rows(c) == 96
    assert layout.rows == 32 and layout.prompts == 8
    # A cell closed by rows holds at least 32 - 16 + 1 of them, by prompts eight groups.
    assert layout.cells == 6 + 2
