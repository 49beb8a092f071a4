"""Rollouts on an expert's trajectories: returns that end where the policy left the expert.

Each row is one step with a prompt of its own. A rollout that follows an expert shows
the policy the expert's observations, and `reward` is that of the policy's own output
at this step (rlvr/envs/expert_steps.py makes the rows). Rows carry `trajectory`,
extras['step_index'] i32[B], the step of the trajectory, one row each, and
extras['match'] [B], nonzero where the output was the expert's action.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import group_relative
from rlvr.advantages import inputs
from rlvr.advantages import trajectories

Array = jax.Array

EPISODES = ('trajectory', 'row')


def step_returns(rollout: types.Rollout, *, discount: float = 0.5) -> Array:
  """The discounted return of each step, which ends where the policy left the expert.

  Backwards over a trajectory, with after = 0 behind its last step,

    R_t = r_t + discount match_t after_{t+1},    after_t = match_t R_t

  so a step that missed keeps its own reward, and earlier steps get nothing from it
  or from beyond it.

  Args:
    rollout: reads reward, trajectory, group, graded, where and the extras above.
    discount: gamma, at least 0 and below 1.

  Returns:
    f32[B]; 0 on ungraded rows, which are left out as if the next graded step came
    next. With rewards in [0, r_max]: r <= R < r_max / (1 - discount).

  Raises:
    ValueError: discount out of range, or an extra is missing.
  """
  if not 0 <= discount < 1:
    raise ValueError(f'semi_online: discount={discount} must be at least 0 and below 1.')
  reward, where = inputs.graded_reward(rollout)
  index = inputs.extra(rollout, 'step_index', 'semi_online')
  match = groups.zero_off(inputs.extra(rollout, 'match', 'semi_online') != 0, where)
  num_rows = reward.shape[0]
  # Ungraded rows are a trajectory of their own, behind all others.
  trajectory = jnp.where(where, trajectories.trajectory_ids(rollout), num_rows)
  by_step = jnp.lexsort((index, trajectory))
  ordered = trajectory[by_step]
  goes_on = jnp.append(ordered[1:] == ordered[:-1], False)

  def back(after, step):
    own, matched, more = step
    total = own + discount * matched * jnp.where(more, after, 0.0)
    return matched * total, total

  _, totals = jax.lax.scan(
      back, jnp.float32(0), (reward[by_step], match[by_step], goes_on), reverse=True)
  return groups.zero_off(jnp.zeros(num_rows, jnp.float32).at[by_step].set(totals), where)


def semi_online(
    rollout: types.Rollout,
    *,
    base=group_relative.grpo,
    discount: float = 0.5,
    episode: str = 'trajectory',
    episode_weight: float = 1.0,
    step_weight: float = 1.0,
) -> Array:
  """A = episode_weight A^E + step_weight A^S: was the rollout good, and was this step.

    A^S = base of the return R_t (`step_returns`) over the group's rows of one step index
    A^E = base of sum_t r_t over the group's trajectories, given to all their steps

  Args:
    rollout: as for `step_returns`. All rows of a trajectory, and all trajectories of
      a group (a task), must be in the batch.
    base: the advantage of one number: `grpo` divides by the std, `dr_grpo` only centres.
    discount: of the return.
    episode: 'trajectory', as above; 'row' is the released code's: base of r_t over all
      steps of all trajectories of the group.
    episode_weight, step_weight: w_E and w_S.

  Returns:
    f32[B]; 0 on ungraded rows. A step index that one trajectory alone reached has
    A^S = 0; a sole trajectory has A^E = 0 and so A = 0. Step advantages sum to 0 over
    the rows of an index. One-step tasks with step_weight = 0 (and 'trajectory' or
    'row') are `base`.

  Raises:
    ValueError: an option out of range, an extra is missing, or base gives one
      advantage a token.

  Source: UI-S1, Semi-online Reinforcement Learning (arXiv 2509.11543). Provenance:
  official code read (X-PLUG/MobileAgent: UI-S1/uis1/core_uis1.py, verl dataset,
  trainer and reward files, scripts/train_example.sh); abstract of the paper. Ours:
  the population std with eps 1e-6 in place of the sample std, and 0 for a sole
  trajectory, where the released code leaves the raw score. Sums of rewards are
  rounded to 1e-4: equal rewards in another order differ by an ulp, which a std
  would blow up.
  """
  if episode not in EPISODES:
    raise ValueError(f"semi_online: episode={episode!r} must be 'trajectory' or 'row'.")
  reward, where = inputs.graded_reward(rollout)
  returns = step_returns(rollout, discount=discount)
  index = order.dense(rollout.group, rollout.extras['step_index'])
  step = base(rollout.replace(reward=returns, group=index))
  if episode == 'trajectory':
    total = groups.sum(reward, trajectories.trajectory_ids(rollout), where)
    whole = trajectories.over_trajectories(
        rollout.replace(reward=jnp.round(total, 4)), base)
  else:
    whole = base(rollout)
  if step.ndim != 1 or whole.ndim != 1:
    raise ValueError('semi_online: base must give one advantage a row, not one a token.')
  return episode_weight * whole + step_weight * step
