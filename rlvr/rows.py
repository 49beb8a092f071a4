"""The only functions that touch the row axis of a rollout: one index for every field."""

import jax
import jax.numpy as jnp

from rlvr import types

Array = jax.Array


def take_rows(rollout: types.Rollout, rows: Array) -> types.Rollout:
  """The rows at `rows` i32[K], one index applied to every field.

  Groups keep their ids, so they stay dense only if K does not shrink below the
  largest id; `regroup` makes them dense again.
  """
  return rollout.replace(**jax.tree.map(lambda x: x[rows], types.row_leaves(rollout)))


def regroup(rollout: types.Rollout) -> types.Rollout:
  """Renumbers `group` densely in order of first appearance."""
  num_rows = rollout.group.shape[0]
  rows = jnp.arange(num_rows)
  # Ids may exceed the row count after take_rows, so rows are compared, not tabled.
  first = jnp.argmax(rollout.group[:, None] == rollout.group[None, :], axis=1)
  dense = jnp.cumsum(first == rows) - 1
  return rollout.replace(group=dense[first].astype(jnp.int32))


def align(rollout: types.Rollout, like: types.Rollout) -> types.Rollout:
  """Gives `rollout` the optional fields of `like`, filled with zeros.

  A missing boolean field is filled with False and every filled float field with
  0, so a row never looks graded, or scored, that was not; `extras` keys too.
  """
  num_rows = rollout.where.shape[0]
  fill = lambda x: jnp.zeros((num_rows, *x.shape[1:]), x.dtype)
  changes = {}
  for name, leaf in types.row_leaves(like).items():
    if name == 'extras':
      missing = {key: fill(x) for key, x in leaf.items() if key not in rollout.extras}
      changes['extras'] = {**rollout.extras, **missing}
    elif leaf is not None and getattr(rollout, name) is None:
      # A row without a verdict field was graded wherever it holds a response.
      changes[name] = rollout.where if name == 'graded' else fill(leaf)
  return rollout.replace(**changes)


def concat(first: types.Rollout, second: types.Rollout) -> types.Rollout:
  """Rows of both, prompts of both; groups and prompt indices of `second` shift.

  Raises:
    ValueError: the prompt or response widths differ, or an optional field is
      set in one only (use `align` first).
  """
  for name, a, b in (('tokens', first.tokens, second.tokens),
                     ('prompts.tokens', first.prompts.tokens, second.prompts.tokens)):
    if a.shape[1] != b.shape[1]:
      raise ValueError(f'concat: {name} has widths {a.shape[1]} and {b.shape[1]}.')
  left, right = types.row_leaves(first), types.row_leaves(second)
  for name in left:
    if jax.tree.structure(left[name]) != jax.tree.structure(right[name]):
      raise ValueError(f'concat: {name} is set in one rollout only; call align first.')
  right['prompt'] = second.prompt + first.prompts.tokens.shape[0]
  right['group'] = second.group + first.where.shape[0]
  join = lambda a, b: jnp.concatenate([a, b])
  fields = {name: jax.tree.map(join, left[name], right[name]) for name in left}
  prompts = jax.tree.map(join, first.prompts, second.prompts)
  return first.replace(prompts=prompts, **fields)


def conform(rollout: types.Rollout, like: types.Rollout) -> types.Rollout:
  """`align`, and the optional fields and extras that `like` does not have are dropped."""
  rollout = align(rollout, like)
  drop = {name: None for name, leaf in types.row_leaves(like).items() if leaf is None}
  return rollout.replace(
      **drop, extras={key: rollout.extras[key] for key in like.extras}, teacher_prompts=None)


def compact(rollout: types.Rollout, num_rows: int) -> types.Rollout:
  """The first `num_rows` rows that hold a response, in order, then free ones; groups dense.

  Raises:
    ValueError: the rollout has fewer rows than that.
  """
  if num_rows > rollout.where.shape[0]:
    raise ValueError(f'compact: num_rows={num_rows}, but there are {rollout.where.shape[0]}.')
  order = jnp.argsort(~rollout.where, stable=True)[:num_rows]
  return regroup(take_rows(rollout, order))


def pad_prompts(rollout: types.Rollout, width: int) -> types.Rollout:
  """Prompts right-padded to `width` positions. Raises: ValueError if they are wider."""
  tokens = rollout.prompts.tokens
  if tokens.shape[1] > width:
    raise ValueError(f'pad_prompts: width={width}, but the prompts have {tokens.shape[1]}.')
  tokens = jnp.pad(tokens, ((0, 0), (0, width - tokens.shape[1])))
  return rollout.replace(prompts=rollout.prompts.replace(tokens=tokens))


def own_prompts(rollout: types.Rollout) -> types.Rollout:
  """As many prompts as rows, a row's at its own place; rows of one prompt read the first's.

  So rows can be stored and taken without their batch, and a prompt is still
  computed once for all its rows.
  """
  prompts = jax.tree.map(lambda x: x[rollout.prompt], rollout.prompts)
  first = jnp.argmax(rollout.prompt[:, None] == rollout.prompt[None, :], axis=1)
  return rollout.replace(prompts=prompts, prompt=first.astype(jnp.int32))
