"""Policy and critic by turns: each share moves by its own optimiser and terms alone."""

import functools

import direct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr.policy import critic as critic_lib
from rlvr.train import actor_critic
from rlvr.train import prepare
from rlvr.train import slow_fast

ROLLOUT = direct.make_rollout([[1, 0], [1, None]], masks=[[1, 1, 0, 1], [1, 1], [1], [1, 1]])
RECIPE = direct.make_recipe(
    advantage=advantages.gae, advantage_only=False, score_old=True, score_first=True, terms={
        'pg': prepare.Term(losses.surrogate, masks.policy_tokens, aggregate.token_mean),
        'value': prepare.Term(losses.value_loss, masks.graded_tokens, aggregate.token_mean)})
LAYOUT = direct.make_layout(num_cells=2, rows=2, prompts=1, spans=(4,))


def table_value(params, out, rows, knobs):
  """A critic whose params are the values of each row's tokens."""
  del out, knobs
  return params['value'][rows.extras['row']][:, :rows.tokens.shape[1]]


POLICY = critic_lib.with_critic(direct.POLICY, critic_lib.Critic(None, table_value))


def make(*, rule=optax.sgd, **options):
  """(step, state) of an actor-critic on the tables; the critic starts at .25."""
  optimizer = rule(1.0)
  terms = {'pg': RECIPE.terms['pg']}
  update = actor_critic.make_actor_critic(
      POLICY, terms, {'value': RECIPE.terms['value']}, optimizer, rule(.5), LAYOUT, **options)
  state = direct.make_state(ROLLOUT, optimizer=optimizer, knobs={'coef_pg': 1., 'coef_value': 1.})
  own = {'value': jnp.full(ROLLOUT.tokens.shape, .25)}
  state = update.init(state.replace(params=state.params | {'critic': own}))
  return jax.jit(update.step), state


@functools.cache
def batch_of():
  _, state = make()
  (batch,), rollout, _ = jax.jit(prepare.make_prepare(RECIPE, POLICY, LAYOUT))(ROLLOUT, state)
  return batch, rollout


class TestMakeActorCritic:

  def test_values_reach_advantages_and_batch(self):
    batch, rollout = batch_of()
    mask = np.asarray(ROLLOUT.mask)
    np.testing.assert_array_equal(rollout.value, .25 * np.asarray(ROLLOUT.valid))
    # gamma 1, lambda .95: .75, then .95 of it, then .95 of that: the other deltas are 0.
    np.testing.assert_allclose(rollout.advantages[0], [.75 * .95 ** 2, .75 * .95, 0, .75],
                               rtol=1e-5)
    assert not np.asarray(rollout.advantages)[3].any()  # ungraded
    assert float(jnp.sum(batch.weights['value'] > 0)) == mask[:3].sum()

  def test_the_critic_moves_by_its_error_and_the_policy_by_its_own(self):
    step, state = make()
    batch, rollout = batch_of()
    new, metrics = step(state, batch)
    target = np.array([[1.], [0], [1], [.25]])  # the last row has no verdict
    kept = np.asarray(masks.graded_tokens(ROLLOUT))
    moved = new.params['critic']['value'] - state.params['critic']['value']
    np.testing.assert_allclose(moved, .5 * kept * (target - .25) / kept.sum(), atol=1e-6)
    policy_moved = new.params['logp'] - state.params['logp']
    mask = np.asarray(ROLLOUT.mask)
    np.testing.assert_allclose(policy_moved, mask * rollout.advantages / mask.sum(), atol=1e-6)
    error = kept * (target - .25)
    np.testing.assert_allclose(metrics['critic/loss'], (error ** 2).sum() / 2 / kept.sum(),
                               rtol=1e-5)
    np.testing.assert_allclose(metrics['value_error'], np.abs(error).sum() / kept.sum(), rtol=1e-5)
    assert set(new.params) == {'logp', 'critic'} and float(metrics['skipped']) == 0

  def test_several_updates_of_the_critic_for_one_of_the_policy(self):
    batch, _ = batch_of()
    step, state = make()
    twice, _ = make(critic_updates=2)
    once, _ = step(state, batch)
    again, _ = step(once, batch)
    both, _ = twice(state, batch)
    np.testing.assert_allclose(
        both.params['critic']['value'], again.params['critic']['value'], rtol=1e-6)
    np.testing.assert_array_equal(both.params['logp'], once.params['logp'])

  def test_the_schedule_of_sao(self):
    """In s steps, 2 s critic updates and max(s - warm-up, 0) of the policy."""
    batch, _ = batch_of()
    step, state = make(critic_updates=2, warmup_steps=2, rule=optax.adam)
    start = state.params['logp']
    for s in range(1, 5):
      state, metrics = step(state, batch)
      state = state.replace(step=state.step + 1)
      counts = {name: int(state.opt_state[name][0].count) for name in ('critic', 'policy')}
      assert counts == {'critic': 2 * s, 'policy': max(s - 2, 0)}
      assert float(metrics['skipped']) == (s <= 2)
      assert np.array_equal(state.params['logp'], start) == (s <= 2)

  def test_a_wrapper_goes_around_the_policys_update_alone(self):
    batch, _ = batch_of()
    wrap = functools.partial(slow_fast.sfpo, fast_steps=2, alpha=1.0)
    step, state = make(wrap=wrap, rule=optax.adam)
    new, metrics = step(state, batch)
    assert int(new.opt_state['policy'][0].count) == 3
    assert int(new.opt_state['critic'][0].count) == 1
    assert float(metrics['sfpo_alpha']) == 1

  @pytest.mark.parametrize('options, named', [
      ({'critic_updates': 0}, 'critic_updates=0'), ({'warmup_steps': -1}, 'warmup_steps=-1')])
  def test_options_out_of_range(self, options, named):
    with pytest.raises(ValueError, match=named):
      make(**options)
