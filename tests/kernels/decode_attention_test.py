"""Attention of one new token a slot: a numpy loop, and the training kernel's last position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels import decode_attention
from kernels import dual_attention

# Three blocks of two slots; the second prompt is empty, the third is full.
PROMPT_LENGTH = np.array([2, 0, 5], np.int32)
T = np.array([0, 3, 2, 0, 1, 3], np.int32)
NAMES = ('q', 'k_ctx', 'v_ctx', 'k', 'v')
attend = jax.jit(decode_attention.decode_attention)


def make_arrays(*, num_heads=4, num_kv_heads=2, width=4, length=5, head_dim=6):
  rng = np.random.default_rng(0)
  normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
  return [normal(6, num_heads, head_dim), normal(3, num_kv_heads, length, head_dim),
          normal(3, num_kv_heads, length, head_dim), normal(6, num_kv_heads, width, head_dim),
          normal(6, num_kv_heads, width, head_dim)]


def loop(q, k_ctx, v_ctx, k, v):
  """One slot and head at a time, in f64, from the definition."""
  q, k_ctx, v_ctx, k, v = (np.asarray(x, np.float64) for x in (q, k_ctx, v_ctx, k, v))
  out = np.zeros(q.shape)
  for s, h in np.ndindex(q.shape[:2]):
    block, kv = s // 2, h // (q.shape[1] // k.shape[1])
    num_ctx, num_own = PROMPT_LENGTH[block], T[s] + 1
    keys = np.concatenate([k_ctx[block, kv, :num_ctx], k[s, kv, :num_own]])
    values = np.concatenate([v_ctx[block, kv, :num_ctx], v[s, kv, :num_own]])
    scores = keys @ q[s, h] / np.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max())
    out[s, h] = weights / weights.sum() @ values
  return out


class TestDecodeAttention:

  @pytest.mark.parametrize('num_heads, num_kv_heads', [(4, 2), (3, 1), (2, 2)])
  def test_is_the_loop(self, num_heads, num_kv_heads):
    arrays = make_arrays(num_heads=num_heads, num_kv_heads=num_kv_heads)
    out = attend(*arrays, PROMPT_LENGTH, T)
    np.testing.assert_allclose(out, loop(*arrays), atol=2e-6)

  def test_is_the_training_kernels_position_t(self):
    q, k_ctx, v_ctx, k, v = make_arrays()
    width = k.shape[2]
    wide = np.repeat(q[:, None], width, axis=1)
    trained = jax.jit(dual_attention.dual_attention)(
        wide, *(np.swapaxes(x, 1, 2) for x in (k_ctx, v_ctx, k, v)), np.repeat(np.arange(3), 2),
        PROMPT_LENGTH)
    out = attend(q, k_ctx, v_ctx, k, v, PROMPT_LENGTH, T)
    np.testing.assert_allclose(out, trained[np.arange(6), T], atol=1e-6)

  def test_what_lies_beyond_is_not_seen(self):
    q, k_ctx, v_ctx, k, v = make_arrays()
    base = attend(q, k_ctx, v_ctx, k, v, PROMPT_LENGTH, T)
    for block, length in enumerate(PROMPT_LENGTH):
      k_ctx[block, :, length:], v_ctx[block, :, length:] = 300.0, -1e4
    for slot, t in enumerate(T):
      k[slot, :, t + 1:], v[slot, :, t + 1:] = 300.0, 1e4  # what an earlier row left there
    out = attend(q, k_ctx, v_ctx, k, v, PROMPT_LENGTH, T)
    np.testing.assert_array_equal(out, base)

  def test_bfloat16(self):
    arrays = [jnp.asarray(x, jnp.bfloat16) for x in make_arrays()]
    out = attend(*arrays, PROMPT_LENGTH, T)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(out.astype(jnp.float32), loop(*arrays), atol=2e-2)

  @pytest.mark.parametrize('name, shape', [
      ('v_ctx', (3, 2, 4, 6)), ('k', (6, 2, 4, 5)), ('v', (6, 2, 3, 6)),
      ('prompt_length', (2,)), ('t', (5,))])
  def test_a_wrong_shape_is_named(self, name, shape):
    arrays = dict(zip(NAMES, make_arrays(), strict=True))
    arrays |= {'prompt_length': PROMPT_LENGTH, 't': T}
    arrays[name] = np.zeros(shape, arrays[name].dtype)
    with pytest.raises(ValueError, match=rf'^{name} has shape \({shape[0]}, ?'):
      decode_attention.decode_attention(**arrays)

  def test_blocks_divide_slots_and_key_heads_query_heads(self):
    q, k_ctx, v_ctx, k, v = make_arrays()
    with pytest.raises(ValueError, match='k_ctx has 3 blocks, which must divide the 5 slots'):
      decode_attention.decode_attention(q[:5], k_ctx, v_ctx, k[:5], v[:5], PROMPT_LENGTH, T[:5])
    with pytest.raises(ValueError, match='2 key heads must divide 3 query heads'):
      decode_attention.decode_attention(q[:, :3], k_ctx, v_ctx, k, v, PROMPT_LENGTH, T)
