"""Policy and critic by turns: two optimisers, each on its own share of the params.

Both turns are the same `make_update`: it is given one share of the params, and a
policy that joins the other, which is held, before it scores.
"""

import jax
import jax.numpy as jnp
import optax

from rlvr import types
from rlvr.policy import critic as critic_lib
from rlvr.train import cells as cells_lib
from rlvr.train import prepare as prepare_lib
from rlvr.train import slow_fast
from rlvr.train import update as update_lib

CRITIC = critic_lib.CRITIC
POLICY = 'policy'  # beside CRITIC, the keys of opt_state


def make_actor_critic(
    policy: types.Policy,
    terms: dict[str, prepare_lib.Term],
    critic_terms: dict[str, prepare_lib.Term],
    optimizer: optax.GradientTransformation,
    critic_optimizer: optax.GradientTransformation,
    layout: cells_lib.Layout,
    *,
    wrap=slow_fast.plain,
    critic_updates: int = 1,
    warmup_steps: int = 0,
) -> slow_fast.Update:
  """Per batch: `critic_updates` of the critic, then one of the policy.

  Args:
    policy: from critic.with_critic.
    terms: the policy's loss terms.
    critic_terms: the critic's; they get gradients to the critic alone.
    optimizer, critic_optimizer: of the two shares.
    layout: as in make_update.
    wrap: a part of UPDATES, around the policy's update.
    critic_updates: critic updates per policy update, at least 1.
    warmup_steps: first steps in which the policy stays as it is and `skipped` is 1.

  Returns:
    An Update. Its `init` takes a state whose opt_state is the policy's share and
    adds the critic's. Metrics are the policy's, and those of the last critic
    update: its terms' own, critic/loss, critic/grad_norm and critic/skipped.

  Raises:
    ValueError: an option is out of range.

  Source: PPO (arXiv 1707.06347); warm-up and update ratio of SAO
  (arXiv 2607.07508), 10 steps and 2.
  """
  if critic_updates < 1 or warmup_steps < 0:
    raise ValueError(f'critic_updates={critic_updates} must be at least 1 and '
                     f'warmup_steps={warmup_steps} at least 0.')

  def holding(held):
    """The policy over one share of the params, the other joined without gradient."""
    score = lambda params, rows, knobs, *, anchors=None: policy.score(
        params | held, rows, knobs, anchors=anchors)
    return policy._replace(score=score)

  def actor_step(state, batch, *, axis_name=None):
    held = {CRITIC: state.params[CRITIC]}
    step = update_lib.make_update(holding(held), terms, optimizer, layout)
    own = state.replace(params=critic_lib.policy_share(state.params),
                        opt_state=state.opt_state[POLICY])
    new, metrics = step(own, batch, axis_name=axis_name)
    return new.replace(params=new.params | held,
                       opt_state=state.opt_state | {POLICY: new.opt_state}), metrics

  def critic_step(state, batch, axis_name):
    held = critic_lib.policy_share(state.params)
    step = update_lib.make_update(holding(held), critic_terms, critic_optimizer, layout)
    own = state.replace(params={CRITIC: state.params[CRITIC]}, opt_state=state.opt_state[CRITIC])
    new, metrics = step(own, batch, axis_name=axis_name)
    return new.replace(params=held | new.params,
                       opt_state=state.opt_state | {CRITIC: new.opt_state}), metrics

  wrapped = wrap(actor_step)

  def init(state):
    both = {POLICY: state.opt_state, CRITIC: critic_optimizer.init({CRITIC: state.params[CRITIC]})}
    return wrapped.init(state.replace(opt_state=both))

  def step(state, batch, *, axis_name=None):
    state, measured = jax.lax.scan(
        lambda now, _: critic_step(now, batch, axis_name), state, length=critic_updates)
    measured = jax.tree.map(lambda x: x[-1], measured)
    new, metrics = wrapped.step(state, batch, axis_name=axis_name)
    warm = state.step >= warmup_steps
    keep = lambda name: jax.tree.map(
        lambda a, b: jnp.where(warm, a, b), getattr(new, name), getattr(state, name))
    new = new.replace(**{name: keep(name) for name in ('params', 'opt_state', 'method')})
    metrics['skipped'] = jnp.where(warm, metrics['skipped'], 1.0)
    own = {f'critic/{name}': measured.pop(name) for name in ('loss', 'grad_norm', 'skipped')}
    return new, measured | metrics | own

  return slow_fast.Update(init, step)
