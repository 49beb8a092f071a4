"""Tests of experiments.steps: the wrapper of the update and the critic that a config names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import build
from experiments import checks
from experiments import steps
from experiments.configs import ppo
from experiments.configs import ppo_ewma_decoupled
from experiments.configs import sfpo
from rlvr.policy import critic


def config(module, arg='size=tiny', **changes):
  c = module.get_config(arg)
  c.model.warm_start_steps = 0
  c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return c


class TestCheck:

  @pytest.mark.parametrize('module, arg, changes, sentence', [
      (ppo, 'critic.value=none', {}, 'no critic; name one, as in ":critic.value=value_head"'),
      (ppo, '', {'score_first': False}, '--config.score_first=True'),
      (ppo, '', {'critic__updates': 0}, 'config.critic.updates is 0; it must be at least 1'),
      (ppo, '', {'critic__warmup_steps': -1}, 'config.critic.warmup_steps is -1'),
      (sfpo, '', {'batch__epochs': 2}, 'config.stepping is sfpo.*batch.epochs'),
      (sfpo, '', {'batch__minibatches': 2}, 'config.stepping is sfpo'),
      (sfpo, 'critic.value=value_head', {}, 'no loss trains; add ":losses.value=value_loss"'),
      (sfpo, 'losses.value=value_loss', {}, 'value_loss, which reads values, and no critic'),
      (sfpo, 'advantage=sao', {}, 'sao, which reads values, and no critic'),
      (sfpo, '', {'score_old': 'ewma'}, 'no memory keeps; add ":memory.old=ewma"'),
      (ppo_ewma_decoupled, '', {'score_old': 'snapshots'}, 'add ":memory.old=snapshots"'),
  ])
  def test_what_does_not_fit(self, module, arg, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
      checks.check(config(module, f'size=tiny,{arg}', **changes))

  def test_a_critic_alone_is_no_run(self):
    c = config(ppo)
    del c.losses['pg']
    with pytest.raises(ValueError, match='the critic alone'):
      steps.check(c)

  @pytest.mark.parametrize('module', [ppo, sfpo, ppo_ewma_decoupled])
  def test_what_fits(self, module):
    steps.check(config(module))


class TestMakeLearner:

  @pytest.mark.parametrize('value', ['value_head', 'value_model'])
  def test_the_critic_is_in_the_state_with_its_optimiser(self, value):
    run, _ = build.build(config(ppo, f'size=tiny,critic.value={value}'), None)
    state = run.init()
    assert set(state.opt_state) == {'policy', 'critic'}
    shapes = lambda tree: [x.shape for x in jax.tree.leaves(tree)]
    own = critic.policy_share(state.params)
    assert shapes(state.opt_state['policy'][1][0].mu) == shapes(own)
    assert shapes(state.opt_state['critic'][1][0].mu) == shapes(state.params['critic'])
    pointers = [x.addressable_data(0).unsafe_buffer_pointer() for x in jax.tree.leaves(
        (state.params, state.opt_state)) if x.size]
    assert len(set(pointers)) == len(pointers)

  def test_the_options_reach_the_parts(self):
    with pytest.raises(ValueError, match='alpha=2.0'):
      build.build(config(sfpo, stepping__alpha=2.0), None)
    run, _ = build.build(config(sfpo, stepping__window=7), None)
    assert run.abstract.method['sfpo']['entropies'].shape == (7,)

  def test_old_log_probs_are_scored_where_a_batch_is_used_again(self):
    assert build.resolve_recipe(config(sfpo)).score_old
    recipe = build.resolve_recipe(config(ppo_ewma_decoupled))
    assert recipe.score_old and recipe.old_policy.known is None

  def test_the_average_starts_as_the_policy(self):
    run, _ = build.build(config(ppo_ewma_decoupled), None)
    state = run.init()
    jax.tree.map(np.testing.assert_array_equal, state.anchors['ewma'], state.params)
    assert float(jnp.asarray(state.method['ewma'])) == 1
