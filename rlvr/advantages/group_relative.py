"""Advantages against the row's own group: GRPO, Dr. GRPO, RLOO.

Each is (rollout) -> f32[B], 0 on ungraded rows, which are outside all
statistics. None carries a gradient: rewards are data.
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array


def grpo(rollout: types.Rollout, *, ddof: int = 0, eps: float = 1e-6) -> Array:
  """Reward normalised in its group: A = (r - mean) / (std + eps).

  Args:
    rollout: reads reward, group, graded, where.
    ddof: of the std; 1 in the code bases read, a constant factor
      sqrt((G - 1) / G) on A.
    eps: added to the std; the only guard against rewards that differ by rounding.

  Returns:
    f32[B]. An all-equal group, a sole member and ungraded rows give exactly 0.

  Source: DeepSeekMath (arXiv 2402.03300). Provenance: code read
  (volcengine/verl:verl/trainer/ppo/core_algos.py, OpenRLHF/OpenRLHF:
  openrlhf/trainer/ppo_utils/experience_maker.py, huggingface/trl docs); paper
  from knowledge. A sole member gets 0, not its raw reward as in one code base.
  """
  reward, where = inputs.graded_reward(rollout)
  return groups.group_norm(reward, rollout.group, where, ddof=ddof, eps=eps)


def dr_grpo(rollout: types.Rollout) -> Array:
  """Reward less its group's mean: A = r - mean, no division by the std.

  Args:
    rollout: reads reward, group, graded, where.

  Returns:
    f32[B]. An all-equal group, a sole member and ungraded rows give exactly 0.

  Source: Understanding R1-Zero-Like Training (arXiv 2503.20783). Provenance:
  official code read (sail-sg/understand-r1-zero:train_zero_math.py,
  examples/qwen2.5-math-1.5b.sh); paper from knowledge. Its aggregate is
  `aggregate.seq_sum_constant`.
  """
  reward, where = inputs.graded_reward(rollout)
  return groups.zero_off(reward - groups.mean(reward, rollout.group, where), where)


def rloo(rollout: types.Rollout) -> Array:
  """Reward less the mean of the other members: A = n / (n - 1) * (r - mean).

  Args:
    rollout: reads reward, group, graded, where; n counts graded members.

  Returns:
    f32[B]. Fewer than two graded members leave no baseline: 0. An all-equal
    group and ungraded rows give exactly 0.

  Source: Back to Basics (arXiv 2402.14740). Provenance: code read
  (volcengine/verl core_algos.py, OpenRLHF experience_maker.py, huggingface/trl
  docs); paper from knowledge. Its KL inside the reward is
  `rewards.kl_in_reward`, its loss `losses.policy_gradient` weighted by
  `aggregate.seq_sum`.
  """
  reward, where = inputs.graded_reward(rollout)
  centred = reward - groups.mean(reward, rollout.group, where)
  size = groups.count(rollout.group, where)
  scale = size / jnp.maximum(size - 1, 1)
  return groups.zero_off(jnp.where(size > 1, scale * centred, 0.0), where)
