"""How a run's step is taken: the wrapper of its update, and a critic beside the policy."""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import ml_collections
import optax

from experiments import tables
from rlvr import advantages
from rlvr import losses
from rlvr import old_policies
from rlvr import spec
from rlvr import types
from rlvr.policy import critic as critic_lib
from rlvr.train import actor_critic
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import slow_fast
from rlvr.train import update


class Learner(NamedTuple):
  """What learns, and how.

  Attributes:
    policy: gives values too where there is a critic.
    grow: (the policy's params) -> params of all that is trained.
    update: its init takes a state with the policy's own opt_state.
  """

  policy: types.Policy
  grow: Callable[[Any], Any]
  update: slow_fast.Update


def make_learner(
    c: ml_collections.ConfigDict, recipe: prepare.Recipe, policy: types.Policy,
    optimizer: optax.GradientTransformation, layout: cells.Layout,
) -> Learner:
  """The parts that c.stepping and c.critic name. Raises: ValueError on their options."""
  wrap = spec.resolve(tables.TABLES, c.stepping, 'config.stepping', 'stepping')
  critic = spec.resolve(tables.TABLES, c.critic.value, 'config.critic.value', 'value')(policy)
  if critic is None:
    step = update.make_update(policy, recipe.terms, optimizer, layout)
    return Learner(policy, lambda params: params, wrap(step))
  policy = critic_lib.with_critic(policy, critic)
  of_critic = {name for name in c.losses if c.losses[name].term.name in losses.CRITIC_TERMS}
  terms = {name: term for name, term in recipe.terms.items() if name not in of_critic}
  both = actor_critic.make_actor_critic(
      policy, terms, {name: recipe.terms[name] for name in of_critic}, optimizer,
      spec.resolve(tables.TABLES, c.critic.optimizer, 'config.critic.optimizer', 'optimizer')(),
      layout, wrap=wrap, critic_updates=c.critic.updates, warmup_steps=c.critic.warmup_steps)
  return Learner(
      policy, lambda params: params | {critic_lib.CRITIC: critic.init(params)}, both)


def check(c: ml_collections.ConfigDict) -> None:
  """Choices that need each other. Raises: ValueError, one sentence each."""
  for path, value, least in (('critic.updates', c.critic.updates, 1),
                             ('critic.warmup_steps', c.critic.warmup_steps, 0)):
    if value < least:
      raise ValueError(f'config.{path} is {value}; it must be at least {least}.')
  has_critic = c.critic.value.name != 'none'
  reads = tables.part_names(c.advantage) & advantages.FROM_CRITIC
  teaches = tables.part_names(c.losses) & losses.CRITIC_TERMS
  if (reads or teaches) and not has_critic:
    raise ValueError(
        f'config has {min(reads | teaches)}, which reads values, and no critic; name one, as in '
        '":critic.value=value_head".')
  if has_critic and not teaches:
    raise ValueError(
        'config.critic has a critic that no loss trains; add ":losses.value=value_loss".')
  if has_critic and len(c.losses) == 1:
    raise ValueError('config.losses trains the critic alone; a run needs a term for the policy.')
  if has_critic and not c.score_first:
    raise ValueError('config.critic gives values, which advantages read before the update; set '
                     '--config.score_first=True.')
  if c.score_old in (old_policies.EWMA, old_policies.SNAPSHOTS) and (
      c.score_old not in tables.part_names(c.memory)):
    raise ValueError(
        f'config.score_old is {c.score_old!r}, which no memory keeps; add '
        f'":memory.old={c.score_old}".')
  if c.stepping.name in slow_fast.REUSES_BATCH and c.batch.epochs * c.batch.minibatches > 1:
    raise ValueError(
        f'config.stepping is {c.stepping.name}, which updates on the whole batch only; set '
        'batch.epochs and batch.minibatches to 1.')
