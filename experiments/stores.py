"""The stores of a run: how much they hold, and what of a batch they fill."""

from collections.abc import Sequence

import jax
import ml_collections

from experiments import sampling
from rlvr import memory
from rlvr import types
from rlvr.replay import compose
from rlvr.train import cells
from rlvr.train import prepare


def check(c: ml_collections.ConfigDict) -> None:
  """What a store needs of the rest of the config. Raises: ValueError, one sentence each."""
  for name in ('replay', 'compensation'):
    if c[name].name != 'no_store' and not c.score_first:
      raise ValueError(
          f'config.{name} keeps rows with the log-probs of their own step, and '
          'config.score_first is False; set --config.score_first=True.')
  for name in ('replay_share', 'compensation_first', 'compensation_last'):
    if not 0 <= c.batch[name] <= 1:
      raise ValueError(f'config.batch.{name} is {c.batch[name]}; it must lie in 0 ... 1.')
  if c.replay.name == 'no_store':
    return
  if c.batch.replay_share * c.rollout.prompts + 0.5 >= c.rollout.prompts:
    raise ValueError(
        f'config.batch.replay_share is {c.batch.replay_share}, which leaves none of the '
        f'{c.rollout.prompts} prompts of a batch to sample.')
  if c.rollout.max_rounds > 1:
    raise ValueError(
        f'config.rollout.max_rounds is {c.rollout.max_rounds}; dynamic sampling fills a whole '
        'batch, and config.replay takes a part of it.')


def compensation(c: ml_collections.ConfigDict, store) -> compose.Compensation | None:
  """The compensation that the config describes, None without a store."""
  if store is None:
    return None
  return compose.Compensation(
      store, c.batch.compensation_first, c.batch.compensation_last, c.num_steps)


def memories(
    c: ml_collections.ConfigDict, recipe: prepare.Recipe, policy: types.Policy,
    layout: cells.Layout, state: types.TrainState, columns: Sequence[str] = (),
    offsets: Sequence[str] = (),
) -> tuple[memory.Memory, ...]:
  """The memories of the config's stores, of the shapes that `prepare` gives.

  Args:
    c: the config; a row that can be drawn for N steps needs room for N batches.
    recipe, policy, layout: as for `prepare`.
    state: abstract, without stores.
    columns, offsets: what the verifier names.
  """
  if recipe.replay is None and recipe.compensation is None:
    return ()
  plain = prepare.make_prepare(
      recipe._replace(replay=None, compensation=None), policy, layout)
  rollout = sampling.abstract_rollout(c, c.rollout.prompt_buckets[-1], columns, offsets)
  rollout = jax.eval_shape(plain, rollout, state)[1]
  like = jax.eval_shape(lambda r: compose.stored_fields(compose.stamped(r, r.reward)), rollout)
  num_rows, result = sampling.most_rows(c), []
  if recipe.replay is not None:
    result.append(compose.remember_fresh(recipe.replay, like, num_rows * c.replay.max_age))
  if recipe.compensation is not None:
    # Fewer rows than a batch are held once those that are due have left.
    result.append(compose.remember_left_out(recipe.compensation.store, like, num_rows))
  return tuple(result)


def num_fresh(c: ml_collections.ConfigDict, recipe: prepare.Recipe):
  """(state) -> prompts to sample in its step: all but those whose place a stored group takes."""
  if recipe.replay is None:
    return lambda state: c.rollout.prompts
  return jax.jit(lambda state: c.rollout.prompts - compose.num_replayed(state, c.rollout.prompts))
