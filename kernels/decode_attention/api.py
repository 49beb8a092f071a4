"""Public door of decode attention: validation, then the implementation."""

import jax

from kernels.decode_attention import reference

Array = jax.Array


def decode_attention(
    q: Array,
    k_ctx: Array,
    v_ctx: Array,
    k: Array,
    v: Array,
    prompt_length: Array,
    t: Array,
) -> Array:
  """One query a slot over its block's prompt and its own suffix.

  Slots come in blocks of n = S / C; the slots of a block continue one prompt,
  whose keys are read once for all of them. Heads stand before positions, so that
  every product reads its keys in order.

  Args:
    q: [S, Hq, d], queries at response position `t`.
    k_ctx: [C, Hk, L, d], keys of each block's prompt.
    v_ctx: [C, Hk, L, d].
    k: [S, Hk, T, d], the slots' own keys, position `t` already written.
    v: [S, Hk, T, d].
    prompt_length: i32[C], at least 0; prompt keys at or beyond it are not seen.
    t: i32[S], own keys beyond it are not seen.

  Returns:
    [S, Hq, d] in q's dtype; softmax over both regions in f32.

  Raises:
    ValueError: shapes that do not fit, each named with its value.
  """
  num_slots, num_heads, head_dim = q.shape
  num_blocks, num_kv_heads, ctx_width, _ = k_ctx.shape
  if num_slots % num_blocks:
    raise ValueError(f'k_ctx has {num_blocks} blocks, which must divide the {num_slots} slots.')
  if num_heads % num_kv_heads:
    raise ValueError(f'{num_kv_heads} key heads must divide {num_heads} query heads.')
  for name, array, shape in (
      ('k_ctx', k_ctx, (num_blocks, num_kv_heads, ctx_width, head_dim)),
      ('v_ctx', v_ctx, k_ctx.shape),
      ('k', k, (num_slots, num_kv_heads, k.shape[2], head_dim)),
      ('v', v, k.shape),
      ('prompt_length', prompt_length, (num_blocks,)),
      ('t', t, (num_slots,))):
    if array.shape != shape:
      raise ValueError(f'{name} has shape {array.shape}; expected {shape}.')
  return reference.decode_attention(q, k_ctx, v_ctx, k, v, prompt_length, t)
