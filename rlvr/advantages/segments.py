"""Factorised rewards: each segment of a response is credited by its own reward."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import groups
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import per_reward
from rlvr.rewards import columns as columns_lib

Array = jax.Array


def segment_types(rollout: types.Rollout, *, split_token: int, num_types: int) -> Array:
  """i32[B, T]: which type of segment each token belongs to.

  Args:
    rollout: reads tokens, valid; or extras['segment'] i32[B, T].
    split_token: the id that ends a segment: a token's type is how many of them
      stand before it, at most num_types - 1. Below 0, types are read from extras.
    num_types: M.

  Raises:
    ValueError: split_token is below 0 and the rollout has no extras['segment'].
  """
  if split_token < 0:
    return inputs.extra(rollout, 'segment', 'factorized_reward with split_token=-1')
  ends = (rollout.valid & (rollout.tokens == split_token)).astype(jnp.int32)
  return jnp.minimum(jnp.cumsum(ends, axis=1) - ends, num_types - 1)


def factorized_reward(
    rollout: types.Rollout,
    *,
    base=group_relative.grpo,
    route: tuple = (),
    weights: tuple = (),
    split_token: int = -1,
) -> Array:
  """A[b, t] = sum_s route[segment[b, t]][s] * weights[s] * base(column s)[b].

  Args:
    rollout: reads columns f32[B, S], column_where, mask, group, graded, where, and
      tokens or extras['segment'] i32[B, T] (see `segment_types`).
    base: the advantage of one reward, one number a response.
    route: M rows of up to S numbers, which reward credits which type of segment;
      () is the identity, M = S. A first column of ones is one shared reward, all
      ones give `per_column` on every token; ((1, kappa), (0, 1)) lets text that
      plans the second segment share its reward.
    weights: one a column; () is 1 for all.
    split_token: see `segment_types`.

  Returns:
    f32[B, T]; 0 off the mask and on ungraded rows. A column that is constant in a
    group gives 0 on its segments. A policy token whose type has no row in `route`
    gets NaN: the update is skipped and says so, rather than learn from a guess.

  Raises:
    ValueError: route is wider than the columns, or segment types are missing.

  Source: Efficient Reinforcement for Visual-Textual Thinking with Discrete
  Diffusion Model (arXiv 2606.14792). Provenance: abstract only, reconstructed:
  the separate group normalisation, the routing matrix and `segment_mean` are
  ours. The diffusion sampler is outside this part.
  """
  columns = columns_lib.graded_columns(rollout)
  num_columns = columns.shape[1]
  matrix = np.eye(num_columns, dtype=np.float32)
  if route:
    if max(map(len, route)) > num_columns:
      raise ValueError(
          f'factorized_reward: route={route} is wider than the {num_columns} columns of the '
          'verifier (the outcome first, then its named parts).')
    matrix = np.zeros((len(route), num_columns), np.float32)
    for m, row in enumerate(route):
      matrix[m, :len(row)] = row
  weights = columns_lib.column_weights(weights, num_columns, 'factorized_reward')
  apart = per_reward.each_column(columns, rollout, base)
  per_type = apart @ (matrix * np.asarray(weights, np.float32)).T  # [B, M]
  segment = segment_types(rollout, split_token=split_token, num_types=matrix.shape[0])
  known = (segment >= 0) & (segment < matrix.shape[0])
  credit = jnp.take_along_axis(per_type, jnp.where(known, segment, 0), axis=1)
  on_graded = jnp.where(types.graded(rollout)[:, None], rollout.mask, 0.0)
  return groups.zero_off(jnp.where(known, credit, jnp.nan), on_graded)


def segment_mean(
    rollout: types.Rollout, *, base=factorized_reward, split_token: int = -1, num_types: int = 2
) -> Array:
  """base, so scaled that a token mean becomes a mean over types of their token means.

  A[b, t] * N / (M' * N_m) on tokens of type m: N policy tokens in the batch, N_m of
  that type, M' types present. An image of hundreds of tokens then weighs as much as
  its caption. Use with `aggregate.token_mean`.

  Args:
    rollout: reads mask, where, what `base` reads, and tokens or extras['segment'].
    base: an advantage.
    split_token: see `segment_types`.
    num_types: M, at least 1.

  Returns:
    f32[B, T]; 0 off the mask.

  Raises:
    ValueError: num_types is below 1, or segment types are missing.

  Source: as `factorized_reward`.
  """
  if num_types < 1:
    raise ValueError(f'segment_mean: num_types={num_types} must be at least 1.')
  advantages = base(rollout)
  if advantages.ndim == 1:
    advantages = jnp.broadcast_to(advantages[:, None], rollout.mask.shape)
  segment = segment_types(rollout, split_token=split_token, num_types=num_types)
  tokens = rollout.where[:, None] & (rollout.mask != 0)
  sizes = jnp.stack([jnp.sum(tokens & (segment == m)) for m in range(num_types)])
  share = jnp.sum(sizes) / (jnp.maximum(jnp.sum(sizes > 0), 1) * jnp.maximum(sizes, 1))
  scale = share[jnp.clip(segment, 0, num_types - 1)]
  return groups.zero_off(advantages * scale, tokens)
