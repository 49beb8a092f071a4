"""Builders of whole valid values in one line; the checks of stages are in `contracts`."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import aggregate
from rlvr import types

Array = jax.Array


def make_rollout(
    rewards: Sequence[Sequence[float | None]],
    *,
    lengths: Sequence[int] | None = None,
    masks: Sequence[Sequence[int]] | None = None,
    tokens: Sequence[Sequence[int]] | None = None,
    max_tokens: int | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
    columns: Sequence[Sequence[float]] | None = None,
    stops: Sequence[int] | None = None,
    padding: int = 0,
    seed: int = 0,
    **fields: object,
) -> types.Rollout:
  """A full Rollout from rewards, with every field that the stages read filled in.

  Args:
    rewards: one list a prompt, which is also the group; lists may differ in
      length and be empty. None or NaN is a row without a verdict: its reward
      and columns hold NaN and `graded` is False.
    lengths: tokens per row, 0 allowed; default 2 each (or from masks or tokens).
    masks: per row, 1 for a policy token, 0 for one of the environment's; default
      all 1. Fixes the lengths.
    tokens: per row; default drawn from `seed`. Fixes the lengths.
    max_tokens: T; default the longest row, at least 1.
    prompts: token ids per prompt; default two tokens each.
    columns: S numbers per row; default one column, the reward.
    stops: per row; default STOP_TOKEN.
    padding: rows appended that hold no response; more are added if there are
      more groups than rows.
    seed: of tokens and scores.
    **fields: any field of Rollout, or key of extras, replaced last; arrays of
      all rows.

  Returns:
    A rollout of numpy-made jax arrays: rewards, columns, scores (old_logp,
    ref_logp, value, entropy) included.

  Raises:
    ValueError: a per-row argument does not have one entry a row.
  """
  rng = np.random.default_rng(seed)
  flat = [np.nan if r is None else float(r) for group in rewards for r in group]
  ids = [index for index, group in enumerate(rewards) for _ in group]
  num_real = len(flat)
  for name, value in (('lengths', lengths), ('masks', masks), ('tokens', tokens),
                      ('columns', columns), ('stops', stops)):
    if value is not None and len(value) != num_real:
      raise ValueError(f'make_rollout: {name} has {len(value)} entries for {num_real} rows.')
  if lengths is None:
    per_row = masks if masks is not None else tokens
    lengths = [2] * num_real if per_row is None else [len(row) for row in per_row]
  masks = [[1] * n for n in lengths] if masks is None else masks
  width = max([1, *lengths]) if max_tokens is None else max_tokens
  num_rows = max(num_real + padding, len(rewards), 1)

  def rows(values, fill, dtype, trailing=()):
    array = np.full((num_rows, *trailing), fill, dtype)
    for index, value in enumerate(values):
      if trailing:
        array[index, :len(value)] = value
      else:
        array[index] = value
    return array

  reward = rows(flat, np.nan if num_rows > num_real else 0.0, np.float32)
  graded = np.isfinite(reward)
  per_token = (width,)
  valid = rows([[True] * n for n in lengths], False, bool, per_token)
  mask = rows(masks, 0.0, np.float32, per_token)
  if tokens is None:
    tokens = [rng.integers(1, 9, n) for n in lengths]
  if columns is None:
    column = reward[:, None]
  else:
    num_columns = max([1, *(len(row) for row in columns)])
    column = rows(columns, np.nan, np.float32, (num_columns,))
    column[~graded] = np.nan
  logp = lambda: np.where(valid, -rng.uniform(0.1, 2.0, valid.shape), 0.0).astype(np.float32)
  if prompts is None:
    prompts = [[1 + index % 7, 9] for index in range(max(len(rewards), 1))]
  prompt_width = max([1, *(len(p) for p in prompts)])
  prompt_tokens = np.zeros((len(prompts), prompt_width), np.int32)
  for index, prompt in enumerate(prompts):
    prompt_tokens[index, :len(prompt)] = prompt
  old_logp = logp()
  values = dict(
      prompts=types.Prompts(
          tokens=prompt_tokens,
          length=np.array([max(len(p), 1) for p in prompts], np.int32),
          id=np.arange(len(prompts), dtype=np.int32)),
      prompt=rows(ids, 0, np.int32),
      group=rows(ids, 0, np.int32),
      where=np.arange(num_rows) < num_real,
      tokens=rows(tokens, 0, np.int32, per_token),
      valid=valid,
      mask=mask,
      rollout_logp=old_logp,
      version=np.zeros((num_rows, width), np.int32),
      source=np.full((num_rows,), types.FRESH, np.int32),
      stop=rows([types.STOP_TOKEN] * num_real if stops is None else stops, types.ABORT, np.int32),
      temperature=np.ones((num_rows,), np.float32),
      reward=reward,
      columns=column,
      column_where=np.isfinite(column),
      graded=graded,
      old_logp=old_logp,
      ref_logp=logp(),
      value=np.where(valid, rng.normal(size=valid.shape), 0.0).astype(np.float32),
      entropy=np.where(valid, rng.uniform(0.1, 1.0, valid.shape), 0.0).astype(np.float32),
  )
  known = types.Rollout.__dataclass_fields__
  extras = dict(fields.pop('extras', {}))
  for name in list(fields):
    if name not in known:
      extras[name] = fields.pop(name)
  values.update(fields, extras=extras)
  return types.Rollout(**jax.tree.map(jnp.asarray, values))


def make_output(
    logp: object, *, entropy: object = 0.5, **fields: object
) -> types.PolicyOutput:
  """A PolicyOutput from log-probabilities [n, T]; a scalar entropy is broadcast."""
  logp = jnp.asarray(logp)
  entropy = jnp.broadcast_to(jnp.asarray(entropy, jnp.float32), logp.shape)
  return types.PolicyOutput(logp=logp, entropy=entropy, **jax.tree.map(jnp.asarray, fields))


def make_cell(
    advantages: object,
    *,
    mask: object = None,
    old_logp: object = None,
    rollout_logp: object = None,
    ref_logp: object = None,
    correction: object = None,
    weigh=aggregate.token_mean,
    **fields: object,
) -> types.Batch:
  """One cell of a Batch, as a loss term sees it.

  Args:
    advantages: [n], or [n, T]; of [n] each token gets its row's.
    mask: [n, T]; default all 1 of the advantages' shape.
    old_logp, ref_logp, correction: [n, T] or None.
    rollout_logp: [n, T]; default -1 on the mask.
    weigh: aggregate that makes weights['loss'] from the mask, every row counted.
    **fields: any field of Batch, replaced last.

  Returns:
    A cell with one prompt, all rows in group 0.
  """
  advantages = jnp.asarray(advantages)
  if mask is None:
    mask = jnp.ones(advantages.shape if advantages.ndim == 2 else (*advantages.shape, 1))
  mask = jnp.asarray(mask, jnp.float32)
  num_rows, width = mask.shape
  if advantages.ndim == 1:
    advantages = jnp.broadcast_to(advantages[:, None], mask.shape)
  optional = lambda x: None if x is None else jnp.asarray(x)
  where = jnp.ones((num_rows,), bool)
  values = dict(
      prompts=types.Prompts(
          tokens=jnp.ones((1, 2), jnp.int32),
          length=jnp.full((1,), 2, jnp.int32),
          id=jnp.zeros((1,), jnp.int32)),
      prompt=jnp.zeros((num_rows,), jnp.int32),
      group=jnp.zeros((num_rows,), jnp.int32),
      where=where,
      tokens=jnp.ones((num_rows, width), jnp.int32),
      valid=mask != 0,
      mask=mask,
      temperature=jnp.ones((num_rows,)),
      rollout_logp=-mask if rollout_logp is None else jnp.asarray(rollout_logp),
      advantages=advantages,
      reward=jnp.zeros((num_rows,)),
      version=jnp.zeros((num_rows, width), jnp.int32),
      weights={'loss': weigh(mask, jnp.ones((num_rows,)), where, jnp.zeros(num_rows, jnp.int32))},
      correction=optional(correction),
      old_logp=optional(old_logp),
      ref_logp=optional(ref_logp),
  )
  values.update(fields)
  return types.Batch(**values)


def objective(terms: Array, weights: Array) -> Array:
  """sum over weight != 0 of weight * term: what `update` takes the gradient of."""
  return jnp.sum(jnp.where(weights != 0, weights * terms, 0.0))
