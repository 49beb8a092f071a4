"""Public door of shared-prompt attention: validation, then the implementation."""

import jax

from kernels.dual_attention import reference

Array = jax.Array


def dual_attention(
    q: Array,
    k_ctx: Array,
    v_ctx: Array,
    k: Array,
    v: Array,
    prompt: Array,
    prompt_length: Array,
) -> Array:
  """Attention of responses over their prompt's keys and their own.

  out[n, t] = softmax(scale * q[n, t] . [k_ctx[prompt[n], < prompt_length], k[n, <= t]]) [v_ctx, v]
  with scale = d ** -0.5; softmax and sums in f32. A prompt's keys are computed
  once for all its responses and their cotangents are summed over them.

  Args:
    q: [N, T, Hq, d], response queries (rotated).
    k_ctx: [P, L, Hk, d], prompt keys; Hk divides Hq.
    v_ctx: [P, L, Hk, d], prompt values.
    k: [N, T, Hk, d], response keys.
    v: [N, T, Hk, d], response values.
    prompt: i32[N], the prompt each response continues.
    prompt_length: i32[P]; prompt keys at or beyond it are not seen.

  Returns:
    [N, T, Hq, d] in q's dtype. Right padding of a response needs no mask, since
    no earlier position sees it. A row with an empty prompt sees its own keys.

  Raises:
    ValueError: shapes that do not fit, each named with its value.

  Source: DualKV: Shared-Prompt Flash Attention for Efficient RL Training (arXiv
  2605.15422), on two right-padded blocks in place of one packed row.
  """
  num_rows, width, num_heads, head_dim = _rank4('q', q)
  num_prompts, length, num_kv_heads, _ = _rank4('k_ctx', k_ctx)
  if num_heads % num_kv_heads:
    raise ValueError(f'{num_kv_heads} key heads must divide {num_heads} query heads.')
  _expect('k_ctx', k_ctx, (num_prompts, length, num_kv_heads, head_dim))
  _expect('v_ctx', v_ctx, (num_prompts, length, num_kv_heads, head_dim))
  _expect('k', k, (num_rows, width, num_kv_heads, head_dim))
  _expect('v', v, (num_rows, width, num_kv_heads, head_dim))
  _expect('prompt', prompt, (num_rows,))
  _expect('prompt_length', prompt_length, (num_prompts,))
  return reference.dual_attention(q, k_ctx, v_ctx, k, v, prompt, prompt_length)


def causal_attention(q: Array, k: Array, v: Array) -> Array:
  """Ordinary causal attention, the prompt's own pass.

  Args:
    q: [P, L, Hq, d]; k, v: [P, L, Hk, d]. Rows are right-padded, so causality
      alone keeps real positions from seeing padding.

  Returns:
    [P, L, Hq, d] in q's dtype.

  Raises:
    ValueError: shapes that do not fit, each named with its value.
  """
  num_prompts, length, num_heads, head_dim = _rank4('q', q)
  num_kv_heads = _rank4('k', k)[2]
  if num_heads % num_kv_heads:
    raise ValueError(f'{num_kv_heads} key heads must divide {num_heads} query heads.')
  _expect('k', k, (num_prompts, length, num_kv_heads, head_dim))
  _expect('v', v, (num_prompts, length, num_kv_heads, head_dim))
  return reference.causal_attention(q, k, v)


def _rank4(name, array):
  if array.ndim != 4:
    raise ValueError(f'{name} has shape {array.shape}; expected [rows, positions, heads, d].')
  return array.shape


def _expect(name, array, shape):
  if array.shape != shape:
    raise ValueError(f'{name} has shape {array.shape}; expected {shape}.')
