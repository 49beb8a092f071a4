"""Critics beside a policy: what they read, where their gradient goes, what they leave alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import testing
from rlvr.policy import critic as critic_lib
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode

BASE = transformer.make_policy(tiny.config(vocab_size=11), remat='none')
ROLLOUT = testing.make_rollout([[1, 0]], lengths=[4, 3], prompts=[[1, 2, 3]])


@functools.cache
def case(name, frozen=()):
  """(policy, params) with a critic whose head is not zero, so that it sees something."""
  options = {'frozen': frozen} if frozen else {}
  critic = critic_lib.CRITICS[name](BASE, **options)
  policy = critic_lib.with_critic(BASE, critic)
  params = jax.jit(BASE.init)(jax.random.key(0))
  own = critic.init(params)
  head = own['head'] if name == 'value_model' else own
  head['weight'] = jnp.asarray(np.random.default_rng(0).normal(size=32), jnp.float32)
  return policy, params | {critic_lib.CRITIC: own}


@functools.cache
def gradients(name, frozen=()):
  policy, params = case(name, frozen)
  total = lambda p: jnp.sum(policy.score(p, ROLLOUT, {}).value * ROLLOUT.mask)
  return jax.jit(jax.grad(total))(params)


def largest(tree):
  return max(float(jnp.abs(x).max()) for x in jax.tree.leaves(tree))


@pytest.mark.parametrize('name', ['value_head', 'value_model'])
class TestBoth:

  def test_starts_at_zero(self, name):
    critic = critic_lib.CRITICS[name](BASE)
    params = jax.eval_shape(BASE.init, jax.random.key(0))
    own = jax.eval_shape(critic.init, params)
    assert 'trunk' not in own or own['trunk'].keys() == params.keys()
    zero = critic.init(jax.jit(BASE.init)(jax.random.key(0)))
    head = zero.get('head', zero)
    assert largest(head) == 0

  def test_is_the_state_before_the_token(self, name):
    policy, params = case(name)
    value = jax.jit(lambda p, r: policy.score(p, r, {}).value)
    before = value(params, ROLLOUT)
    after = value(params, ROLLOUT.replace(tokens=ROLLOUT.tokens.at[0, 2].add(1)))
    assert before.shape == ROLLOUT.mask.shape and before.dtype == jnp.float32
    np.testing.assert_array_equal(after[0, :3], before[0, :3])
    assert float(jnp.abs(after[0, 3] - before[0, 3])) > 1e-3

  def test_the_policys_weights_get_no_gradient(self, name):
    grads = gradients(name)
    assert largest(critic_lib.policy_share(grads)) == 0
    assert largest(grads[critic_lib.CRITIC]) > 0

  def test_log_probs_are_the_policys(self, name):
    policy, params = case(name)
    out = jax.jit(lambda p: policy.score(p, ROLLOUT, {}).logp)(params)
    plain = jax.jit(lambda p: BASE.score(p, ROLLOUT, {}).logp)(critic_lib.policy_share(params))
    np.testing.assert_allclose(out, plain, rtol=1e-6)

  def test_params_without_a_critic_are_scored_without(self, name):
    policy, params = case(name)
    out = jax.eval_shape(lambda p: policy.score(p, ROLLOUT, {}), critic_lib.policy_share(params))
    assert out.value is None


class TestValueHead:

  def test_a_policy_without_hidden_states(self):
    critic = critic_lib.value_head(BASE)
    with pytest.raises(ValueError, match='use value_model'):
      critic.value({}, testing.make_output(jnp.zeros((1, 2))), ROLLOUT, {})


class TestValueModel:

  def test_frozen_weights_get_no_gradient(self):
    trunk = gradients('value_model', ('qkv', 'o'))['critic']['trunk']
    assert largest((trunk['layers']['qkv'], trunk['layers']['o'])) == 0
    assert largest(trunk['layers']['down']) > 0
    assert largest(gradients('value_model')['critic']['trunk']['layers']['qkv']) > 0

  def test_an_unknown_weight(self):
    policy, params = case('value_model', ('qkw',))
    with pytest.raises(ValueError, match="frozen: unknown name 'qkw'.*'qkv'"):
      jax.eval_shape(lambda p: policy.score(p, ROLLOUT, {}), params)


class TestWithCritic:

  def test_samples_are_the_policys(self):
    policy, params = case('value_head')
    fresh, _ = decode.grow(decode.begin(ROLLOUT.prompts, 2, 4), jnp.array([2]))
    sample = lambda policy: jax.jit(lambda p: decode.sample(
        p, fresh, jax.random.key(1), {}, policy=policy, slots=2, stop_ids=(2,))[0])
    own, plain = sample(policy)(params), sample(BASE)(critic_lib.policy_share(params))
    np.testing.assert_array_equal(own.tokens, plain.tokens)
    np.testing.assert_allclose(own.rollout_logp, plain.rollout_logp, rtol=1e-6)

  def test_cast_leaves_the_critic_in_f32(self):
    low = transformer.make_policy(tiny.config(vocab_size=11), compute_dtype=jnp.bfloat16)
    policy = critic_lib.with_critic(low, critic_lib.value_head(low))
    cast = jax.eval_shape(policy.cast, case('value_head')[1])
    assert cast['embed'].dtype == jnp.bfloat16
    assert cast[critic_lib.CRITIC]['weight'].dtype == jnp.float32


class TestNone:

  def test_is_no_critic(self):
    assert critic_lib.none(BASE) is None
