"""Any flax module as a policy: the same log-probs and samples as a policy with a cache."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from flax import nnx

from rlvr import types
from rlvr.policy import flax_adapter
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode

VOCAB = 11
CONFIG = tiny.config(vocab_size=VOCAB)


class Wrapped(linen.Module):
  """The library's transformer as a module that knows nothing of two blocks."""

  @linen.compact
  def __call__(self, tokens):
    params = self.param('all', lambda key: transformer.init(key, config=CONFIG))
    return transformer.logits(params, CONFIG, tokens)


class LinenMean(linen.Module):
  """Logits from the running mean of embeddings: causal, and sees every token."""

  @linen.compact
  def __call__(self, tokens):
    x = linen.Embed(VOCAB, 8)(tokens)
    count = 1.0 + jnp.arange(tokens.shape[1])
    mean = jnp.cumsum(x, axis=1) / count[None, :, None]
    return linen.Dense(VOCAB, kernel_init=linen.initializers.normal(1.0))(x + mean)


class NnxMean(nnx.Module):
  """The same, in nnx."""

  def __init__(self, rngs):
    self.embed = nnx.Embed(VOCAB, 8, rngs=rngs)
    self.layers = nnx.List([nnx.Linear(8, VOCAB, rngs=rngs)])

  def __call__(self, tokens):
    x = self.embed(tokens)
    count = 1.0 + jnp.arange(tokens.shape[1])
    return self.layers[0](x + jnp.cumsum(x, axis=1) / count[None, :, None])


def make_prompts():
  tokens = jnp.array([[1, 2, 3, 4], [5, 6, 9, 9], [7, 9, 9, 9]])
  return types.Prompts(tokens=tokens, length=jnp.array([4, 2, 1]), id=jnp.arange(3))


@functools.cache
def make_rows():
  grow = jax.jit(lambda: decode.grow(decode.begin(make_prompts(), 6, 5), jnp.array([2, 3, 1])))
  rollout, left = grow()
  assert int(left) == 0
  return rollout


@functools.partial(jax.jit, static_argnames=('policy', 'slots'))
def sample(params, rollout, *, policy, slots=4):
  return decode.sample(
      params, rollout, jax.random.key(3), {}, policy=policy, slots=slots, stop_ids=(2,))[0]


class TestFlaxAdapter:

  def test_a_wrapped_transformer_is_the_transformer(self):
    plain = transformer.make_policy(CONFIG)
    adapted = flax_adapter.make_policy(Wrapped(), head_chunk=7)
    params = plain.init(jax.random.key(0))
    ours, theirs = (sample(p, make_rows(), policy=policy)
                    for p, policy in ((params, plain), ({'all': params}, adapted)))
    np.testing.assert_array_equal(theirs.tokens, ours.tokens)
    np.testing.assert_array_equal(theirs.valid, ours.valid)
    np.testing.assert_allclose(theirs.rollout_logp, ours.rollout_logp, atol=1e-5)
    assert 6 < int(jnp.sum(ours.valid)) < 30  # ragged, and not all cut at once
    out = jax.jit(lambda p: plain.score(p, ours, {}))(params)
    same = jax.jit(lambda p: adapted.score({'all': p}, ours, {}))(params)
    valid = np.asarray(ours.valid)
    for name in ('logp', 'entropy'):
      np.testing.assert_allclose(
          np.asarray(getattr(same, name))[valid], np.asarray(getattr(out, name))[valid], atol=1e-5)

  @pytest.mark.parametrize('module', [LinenMean(), NnxMean], ids=['linen', 'nnx'])
  def test_score_reproduces_rollout_logp(self, module):
    policy = flax_adapter.make_policy(module, num_top=2)
    params = jax.jit(policy.init)(jax.random.key(1))
    rollout = sample(params, make_rows(), policy=policy)
    out = jax.jit(lambda p: policy.score(p, rollout, {}))(params)
    np.testing.assert_allclose(
        jnp.where(rollout.valid, out.logp, 0.0), rollout.rollout_logp, atol=1e-5)
    assert out.top_ids.shape == (6, 5, 2)
    assert float(jnp.min(rollout.rollout_logp)) < -0.5
    other = sample(params, make_rows(), policy=policy, slots=1)
    np.testing.assert_array_equal(other.tokens, rollout.tokens)

  @pytest.mark.parametrize('module', [LinenMean(), NnxMean], ids=['linen', 'nnx'])
  def test_params_are_a_pytree_that_trains(self, module):
    policy = flax_adapter.make_policy(module)
    params = jax.jit(policy.init)(jax.random.key(1))
    rollout = sample(params, make_rows(), policy=policy)
    total = lambda p: jnp.sum(jnp.where(rollout.valid, policy.score(p, rollout, {}).logp, 0.0))
    value, grads = jax.jit(jax.value_and_grad(total))(params)
    assert all(np.abs(np.asarray(g)).max() > 0 for g in jax.tree.leaves(grads))
    better = jax.tree.map(lambda p, g: p + 1e-3 * g, params, grads)
    assert float(jax.jit(total)(better)) > float(value)
    other = jax.jit(policy.init)(jax.random.key(2))
    assert not all(np.array_equal(a, b) for a, b in zip(
        jax.tree.leaves(params), jax.tree.leaves(other), strict=True))

  def test_bfloat16_params_are_cast_and_results_are_f32(self):
    policy = flax_adapter.make_policy(LinenMean(), compute_dtype=jnp.bfloat16)
    params = policy.init(jax.random.key(1))
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype('float32')}
    cast = policy.cast(params)
    assert {leaf.dtype for leaf in jax.tree.leaves(cast)} == {jnp.dtype('bfloat16')}
    rows = make_rows()
    shapes = jax.eval_shape(lambda p: policy.score(p, rows, {}), params)
    assert shapes.logp.dtype == jnp.float32

  def test_variables_that_are_not_params_are_refused(self):
    class Norm(linen.Module):
      @linen.compact
      def __call__(self, tokens):
        return linen.BatchNorm(use_running_average=True)(jnp.zeros((*tokens.shape, VOCAB)))

    with pytest.raises(ValueError, match="Norm has collections .'batch_stats'."):
      flax_adapter.make_policy(Norm()).init(jax.random.key(0))
    with pytest.raises(ValueError, match='mean'):
      flax_adapter.make_policy(lambda rngs: nnx.BatchNorm(3, rngs=rngs))
