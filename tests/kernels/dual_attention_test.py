"""Shared-prompt attention: a numpy loop, a dense replicated form, and hand-worked numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels import dual_attention

# Two key heads of two query heads each; prompts of 3, 5, 0 and 1 tokens, the last unused.
PROMPT_LENGTH = np.array([3, 5, 0, 1], np.int32)
PROMPT = np.array([1, 0, 1, 2, 0, 1], np.int32)
NAMES = ('q', 'k_ctx', 'v_ctx', 'k', 'v')
attend = jax.jit(dual_attention.dual_attention)


def make_arrays(*, num_heads=4, num_kv_heads=2, width=4, length=5, head_dim=6, seed=0):
  rng = np.random.default_rng(seed)
  normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
  num_rows, num_prompts = len(PROMPT), len(PROMPT_LENGTH)
  return [normal(num_rows, width, num_heads, head_dim),
          normal(num_prompts, length, num_kv_heads, head_dim),
          normal(num_prompts, length, num_kv_heads, head_dim),
          normal(num_rows, width, num_kv_heads, head_dim),
          normal(num_rows, width, num_kv_heads, head_dim)]


def loop(q, k_ctx, v_ctx, k, v, prompt=PROMPT, prompt_length=PROMPT_LENGTH):
  """One query at a time, in f64, from the definition."""
  q, k_ctx, v_ctx, k, v = (np.asarray(x, np.float64) for x in (q, k_ctx, v_ctx, k, v))
  out = np.zeros(q.shape)
  fold = q.shape[2] // k.shape[2]
  for n, t, h in np.ndindex(q.shape[:3]):
    p, kv = prompt[n], h // fold
    keys = np.concatenate([k_ctx[p, :prompt_length[p], kv], k[n, :t + 1, kv]])
    values = np.concatenate([v_ctx[p, :prompt_length[p], kv], v[n, :t + 1, kv]])
    scores = keys @ q[n, t, h] / np.sqrt(q.shape[3])
    weights = np.exp(scores - scores.max())
    out[n, t, h] = weights / weights.sum() @ values
  return out


def replicated(q, k_ctx, v_ctx, k, v, prompt=PROMPT, prompt_length=PROMPT_LENGTH):
  """Dense: each row has its own copy of the prompt's keys, each query head of its key head."""
  fold = q.shape[2] // k.shape[2]
  keys = jnp.repeat(jnp.concatenate([k_ctx[prompt], k], axis=1), fold, axis=2)
  values = jnp.repeat(jnp.concatenate([v_ctx[prompt], v], axis=1), fold, axis=2)
  length, width = k_ctx.shape[1], q.shape[1]
  in_prompt = jnp.arange(length)[None] < prompt_length[prompt][:, None]
  seen = jnp.concatenate([
      jnp.broadcast_to(in_prompt[:, None], (q.shape[0], width, length)),
      jnp.broadcast_to(jnp.tril(jnp.ones((width, width), bool)), (q.shape[0], width, width)),
  ], axis=2)
  scores = jnp.einsum('nthd,nshd->nhts', q, keys) / np.sqrt(q.shape[3])
  weights = jax.nn.softmax(jnp.where(seen[:, None], scores, -jnp.inf), axis=-1)
  return jnp.einsum('nhts,nshd->nthd', weights, values)


class TestDualAttention:

  @pytest.mark.parametrize('num_heads, num_kv_heads', [(4, 2), (3, 1), (2, 2)])
  def test_is_the_loop(self, num_heads, num_kv_heads):
    arrays = make_arrays(num_heads=num_heads, num_kv_heads=num_kv_heads)
    out = attend(*arrays, PROMPT, PROMPT_LENGTH)
    np.testing.assert_allclose(out, loop(*arrays), atol=2e-6)

  @pytest.mark.parametrize('num_heads, num_kv_heads', [(4, 2), (2, 2)])
  def test_every_cotangent_is_the_replicated_forms(self, num_heads, num_kv_heads):
    arrays = make_arrays(num_heads=num_heads, num_kv_heads=num_kv_heads)
    weight = jnp.asarray(np.random.default_rng(1).normal(size=arrays[0].shape), jnp.float32)

    def grads(attention):
      total = lambda *a: jnp.sum(weight * attention(*a, PROMPT, PROMPT_LENGTH))
      return jax.jit(jax.grad(total, range(5)))(*arrays)

    for name, actual, expected in zip(
        NAMES, grads(attend), grads(replicated), strict=True):
      np.testing.assert_allclose(actual, expected, atol=1e-5, err_msg=name)
      assert np.abs(expected).max() > 0.1, name
    # The prompt that nobody continues, and keys beyond a prompt's length, get none.
    _, k_grad, v_grad, _, _ = grads(attend)
    for grad in (k_grad, v_grad):
      for p, length in enumerate(PROMPT_LENGTH):
        assert (np.asarray(grad)[p, length if p != 3 else 0:] == 0).all()

  def test_worked_example(self):
    # Card dualkv, 1: one prompt key k=0, v=1; two responses of one token each.
    ln3 = np.log(3.0)
    column = lambda *x: jnp.array(x, jnp.float32).reshape(-1, 1, 1, 1)
    arrays = column(ln3, 0), column(0), column(1), column(1, 5), column(0, 4)
    out, pull = jax.vjp(lambda *a: attend(*a, jnp.array([0, 0]), jnp.array([1])), *arrays)
    np.testing.assert_allclose(out.ravel(), [.25, 2.5], rtol=1e-6)
    expected = {'q': [-.1875, 3.75], 'k_ctx': [.1875 * ln3], 'v_ctx': [.75],
                'k': [-.1875 * ln3, 0], 'v': [.75, .5]}
    for name, grad in zip(NAMES, pull(jnp.ones_like(out)), strict=True):
      np.testing.assert_allclose(grad.ravel(), expected[name], rtol=1e-5, atol=1e-7, err_msg=name)

  def test_padding_moves_nothing(self):
    q, k_ctx, v_ctx, k, v = make_arrays()
    base = np.asarray(attend(q, k_ctx, v_ctx, k, v, PROMPT, PROMPT_LENGTH))
    for p, length in enumerate(PROMPT_LENGTH):
      k_ctx[p, length:], v_ctx[p, length:] = 300.0, -1e4
    k[:, 2:], v[:, 2:] = 300.0, 1e4  # responses of two tokens
    out = attend(q, k_ctx, v_ctx, k, v, PROMPT, PROMPT_LENGTH)
    np.testing.assert_array_equal(out[:, :2], base[:, :2])

  def test_permuting_responses_permutes_outputs(self):
    q, k_ctx, v_ctx, k, v = make_arrays()
    order = np.array([3, 5, 0, 1, 4, 2])
    out = attend(q, k_ctx, v_ctx, k, v, PROMPT, PROMPT_LENGTH)
    moved = attend(
        q[order], k_ctx, v_ctx, k[order], v[order], PROMPT[order], PROMPT_LENGTH)
    np.testing.assert_allclose(moved, out[order], atol=1e-6)

  def test_bfloat16(self):
    arrays = [jnp.asarray(x, jnp.bfloat16) for x in make_arrays()]
    out, pull = jax.vjp(lambda *a: attend(*a, PROMPT, PROMPT_LENGTH), *arrays)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(out.astype(jnp.float32), loop(*arrays), atol=2e-2)
    exact = [x.astype(jnp.float32) for x in arrays]
    _, exact_pull = jax.vjp(jax.jit(replicated), *exact)
    for name, grad, expected in zip(
        NAMES, pull(jnp.ones_like(out)), exact_pull(jnp.ones(out.shape)), strict=True):
      assert grad.dtype == jnp.bfloat16
      np.testing.assert_allclose(grad.astype(jnp.float32), expected, atol=6e-2, err_msg=name)

  @pytest.mark.parametrize('name, shape', [
      ('q', (6, 4, 4)), ('k_ctx', (4, 5, 2, 7)), ('v_ctx', (4, 6, 2, 6)), ('k', (6, 3, 2, 6)),
      ('v', (5, 4, 2, 6)), ('prompt', (5,)), ('prompt_length', (3,))])
  def test_a_wrong_shape_is_named(self, name, shape):
    arrays = dict(zip(NAMES, make_arrays(), strict=True))
    arrays |= {'prompt': PROMPT, 'prompt_length': PROMPT_LENGTH}
    arrays[name] = np.zeros(shape, arrays[name].dtype)
    with pytest.raises(ValueError, match=rf'^{name} has shape \({shape[0]}, ?'):
      dual_attention.dual_attention(**arrays)

  def test_key_heads_divide_query_heads(self):
    arrays = make_arrays(num_heads=3, num_kv_heads=2)
    with pytest.raises(ValueError, match='2 key heads must divide 3 query heads'):
      dual_attention.dual_attention(*arrays, PROMPT, PROMPT_LENGTH)


class TestCausalAttention:

  @pytest.mark.parametrize('num_heads, num_kv_heads', [(4, 2), (2, 2)])
  def test_is_dual_attention_without_a_prompt(self, num_heads, num_kv_heads):
    q, k_ctx, v_ctx, k, v = make_arrays(num_heads=num_heads, num_kv_heads=num_kv_heads)
    nothing = np.zeros(4, np.int32)
    weight = np.random.default_rng(1).normal(size=q.shape).astype(np.float32)
    causal = jax.jit(dual_attention.causal_attention)
    dense = lambda q, k, v: replicated(q, k_ctx, v_ctx, k, v, PROMPT, nothing)
    np.testing.assert_allclose(
        causal(q, k, v), loop(q, k_ctx, v_ctx, k, v, PROMPT, nothing), atol=2e-6)
    grads = [jax.jit(jax.grad(lambda *a, f=f: jnp.sum(weight * f(*a)), range(3)))(q, k, v)
             for f in (causal, dense)]
    for actual, expected in zip(*grads, strict=True):
      np.testing.assert_allclose(actual, expected, atol=1e-5)

  def test_a_wrong_shape_is_named(self):
    q, _, _, k, v = make_arrays()
    with pytest.raises(ValueError, match=r'^v has shape \(6, 3, 2, 6\)'):
      dual_attention.causal_attention(q, k, v[:, :3])
    with pytest.raises(ValueError, match=r'^q has shape'):
      dual_attention.causal_attention(q[0], k, v)
    with pytest.raises(ValueError, match='2 key heads must divide 3 query heads'):
      dual_attention.causal_attention(q[:, :, :3], k, v)
