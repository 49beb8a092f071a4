"""A reward from verdicts on criteria, weighed by what they tell: RRT, and what it learns."""

import jax
import jax.numpy as jnp
import optax

from rlvr import groups
from rlvr import memory
from rlvr import types
from rlvr.rewards import item_response

Array = jax.Array

DISCRIMINATION, DIFFICULTY = 'rrt_a', 'rrt_b'  # keys of extras
_NAME = 'rrt_items'  # of the memory's state
_SMALLEST_A, _LARGEST_B = 0.05, 4.0


def favourable(rollout: types.Rollout, points: tuple) -> tuple[Array, Array]:
  """Verdicts on the criteria f32[B, J], oriented, and where they count bool[B, J].

  The criteria are the columns after the outcome.

  Raises:
    ValueError: points that do not fit them, or no columns.
  """
  if rollout.columns is None:
    raise ValueError('rollout.columns is None; criteria are judged by the verifier.')
  met = rollout.columns[:, 1:]
  judged = types.graded(rollout)[:, None] & (met == met)
  if rollout.column_where is not None:
    judged &= rollout.column_where[:, 1:]
  met = groups.zero_off(met, judged)
  return (item_response.orient(met, points) if points else met), judged


def rrt(rollout: types.Rollout, *, points: tuple = (), budget: int = 0) -> Array:
  """The most probable quality of a response, given verdicts on its criteria.

  argmax_z -z^2 / 2 + sum_j y log P + (1 - y) log(1 - P), P = Phi(a_j (z - b_j)),
  see `item_response`: one sharp criterion may outweigh two blunt ones.

  Args:
    rollout: reads columns f32[B, 1 + J] (the outcome is not read), column_where,
      group, graded, where, and extras['rrt_a'], extras['rrt_b'] f32[B, J], which
      memory `rrt_items` learns; without it a = 1 and b = 0.
    points: one number a criterion, in the order of the verifier's names; those
      below 0 are pitfalls, good if absent; their size is not read. () is all good.
    budget: criteria that are judged in a group, chosen by Fisher information; 0
      for all. The paper chooses with (a, b) frozen; `rrt_items` would learn from
      all verdicts.

  Returns:
    f32[B]; 0 without verdicts and on ungraded rows.

  Raises:
    ValueError: a negative budget, or points that do not fit the criteria.

  Source: Rubric Rewards from Item Response Theory (arXiv 2609.35646). Provenance:
  official code read, its text encoder only skimmed; paper body not read. Ours:
  (a, b) is a table over criteria that all prompts share, in place of a network
  over their texts.
  """
  if budget < 0:
    raise ValueError(f'rrt: budget={budget} must be at least 0.')
  verdicts, judged = favourable(rollout, points)
  a = rollout.extras.get(DISCRIMINATION, jnp.ones_like(verdicts))
  b = rollout.extras.get(DIFFICULTY, jnp.zeros_like(verdicts))
  where = types.graded(rollout)
  if budget:
    judged &= item_response.choose_criteria(verdicts, a, b, rollout.group, where, budget)
  return groups.zero_off(item_response.quality(verdicts, judged, a, b), where)


def item_loss(
    log_a: Array, b: Array, verdicts: Array, judged: Array, z: Array, *, prior: float = 0.05
) -> Array:
  """f32[]: the mean over judged verdicts of -(y log P + (1 - y) log(1 - P)) + prior log(a)^2.

  Args:
    log_a, b: f32[J].
    verdicts: f32[B, J], oriented.
    judged: bool[B, J].
    z: f32[B], qualities, held fixed.
    prior: the pull of a to 1.
  """
  loss = -item_response.log_likelihood(verdicts, jnp.exp(log_a), b, z)
  loss += prior * jnp.square(log_a)[None]
  return jnp.sum(groups.zero_off(loss, judged)) / jnp.maximum(jnp.sum(judged), 1)


def rrt_items(
    *,
    points: tuple = (),
    max_criteria: int = 32,
    learning_rate: float = 1e-2,
    weight_decay: float = 0.0,
    prior: float = 0.05,
    max_grad_norm: float = 1.0,
) -> memory.Memory:
  """Discrimination and difficulty of the criteria, learnt once a step by hard EM.

  E: the qualities under the present table. M: one AdamW step on `item_loss`, then
  a >= 0.05 and |b| <= 4. It starts at a = 1, b = 0 for all.

  Args:
    points: as for `rrt`.
    max_criteria: rows of the table; the first J are used.
    learning_rate, weight_decay: of AdamW; at rate 0 the table stays as it is.
    prior: the pull of log a to 0.
    max_grad_norm: gradients above it are scaled down.

  Raises:
    ValueError: an option out of range, or (when read) more criteria than rows.

  Source: as `rrt`; the learning rate is ours, for a table.
  """
  if max_grad_norm <= 0:
    raise ValueError(f'rrt_items: max_grad_norm={max_grad_norm} must be above 0.')
  for option, value in (('learning_rate', learning_rate), ('weight_decay', weight_decay),
                        ('prior', prior)):
    if value < 0:
      raise ValueError(f'rrt_items: {option}={value} must be at least 0.')
  if max_criteria < 1:
    raise ValueError(f'rrt_items: max_criteria={max_criteria} must be at least 1.')
  optimizer = optax.chain(
      optax.clip_by_global_norm(max_grad_norm),
      optax.adamw(learning_rate, weight_decay=weight_decay))

  def init(state, num_prompts):
    del num_prompts
    table = {'log_a': jnp.zeros(max_criteria), 'b': jnp.zeros(max_criteria)}
    own = {'table': table, 'opt_state': optimizer.init(table)}
    return state.replace(method=state.method | {_NAME: own})

  def first(table, num_criteria):
    if num_criteria > max_criteria:
      raise ValueError(
          f'rrt_items: max_criteria={max_criteria} is less than the {num_criteria} criteria of '
          'the verifier.')
    return table['log_a'][:num_criteria], table['b'][:num_criteria]

  def read(rollout, state):
    verdicts, _ = favourable(rollout, points)
    log_a, b = first(state.method[_NAME]['table'], verdicts.shape[1])
    on_rows = lambda x: jnp.broadcast_to(x[None], verdicts.shape)
    extras = {DISCRIMINATION: on_rows(jnp.exp(log_a)), DIFFICULTY: on_rows(b)}
    return rollout.replace(extras=rollout.extras | extras)

  def write(state, rollout, metrics):
    del metrics
    own = state.method[_NAME]
    verdicts, judged = favourable(rollout, points)
    log_a, b = first(own['table'], verdicts.shape[1])
    z = item_response.quality(verdicts, judged, jnp.exp(log_a), b)

    def loss(table):
      return item_loss(*first(table, verdicts.shape[1]), verdicts, judged, z, prior=prior)

    updates, opt_state = optimizer.update(
        jax.grad(loss)(own['table']), own['opt_state'], own['table'])
    table = optax.apply_updates(own['table'], updates)
    table = {'log_a': jnp.maximum(table['log_a'], jnp.log(_SMALLEST_A)),
             'b': jnp.clip(table['b'], -_LARGEST_B, _LARGEST_B)}
    return state.replace(method=state.method | {
        _NAME: {'table': table, 'opt_state': opt_state}})

  return memory.Memory(init, read, write)
