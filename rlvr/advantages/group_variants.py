"""What other libraries offer beside GRPO: batch std, OPO, MaxRL, pass@k.

Each is (rollout) -> f32[B], without gradient; ungraded rows are outside all
statistics and get 0, and so do all-equal groups and sole members. In a config:
":advantage=maxrl".
"""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array


def grpo_batch_std(rollout: types.Rollout, *, ddof: int = 0, eps: float = 1e-6) -> Array:
  """A = (r - mean of the group) / (std of the batch + eps).

  Easy and hard prompts keep their own spread; only the scale of the whole batch
  is normalised.

  Args:
    rollout: reads reward, group, graded, where.
    ddof: of the std; 1 in the code read.
    eps: added to the std; 1e-4 in the code read.

  Returns:
    f32[B].

  Source: Tricks or Traps? (arXiv 2508.08221), "lite PPO"; the option
  scale_rewards="batch" of TRL. Provenance: code read (trainers derived from
  huggingface/trl grpo_trainer.py, found by the text of the option); paper from
  knowledge.
  """
  reward, where = inputs.graded_reward(rollout)
  centred = groups.zero_off(reward - groups.mean(reward, rollout.group, where), where)
  scale = groups.std(reward, jnp.zeros_like(rollout.group), where, ddof=ddof) + eps
  return centred / jnp.where(scale > 0, scale, 1.0)


def opo(rollout: types.Rollout) -> Array:
  """A = r - b with the length-weighted baseline b = sum(len * r) / sum(len).

  The baseline of least variance, if the squared gradient of a response grows
  with its length.

  Args:
    rollout: reads reward, mask (a response's length is its policy tokens),
      group, graded, where.

  Returns:
    f32[B]. In a group without any token b is the smallest reward; no token
    carries it. Lengths all equal: `dr_grpo`.

  Source: On-Policy RL with Optimal Reward Baseline (arXiv 2505.23585), exact
  on-policy training without KL: `losses.policy_gradient`. Provenance: code read
  (forks of volcengine/verl core_algos.py, compute_opo_outcome_advantage); paper
  from knowledge. There a sole member keeps its raw reward; here it gets 0.
  """
  reward, where = inputs.graded_reward(rollout)
  length = jnp.sum(rollout.mask != 0, axis=-1).astype(jnp.float32)
  # Shifted by the minimum, so that an all-equal group is centred to exactly 0.
  low = groups.min(reward, rollout.group, where)
  total = groups.sum(length * (reward - low), rollout.group, where)
  weight = groups.sum(length, rollout.group, where)
  return groups.zero_off(reward - (low + total / jnp.maximum(weight, 1.0)), where)


def maxrl(rollout: types.Rollout) -> Array:
  """A = (r - mean) / mean: the policy gradient of a truncated log-likelihood of success.

  With n binary rewards of success rate p the expected update is
  (1 - (1 - p)^(n - 1)) / p times the gradient of p, so that hard prompts weigh up
  to n - 1 times as much; n -> infinity gives the gradient of log p.

  Args:
    rollout: reads reward, at least 0, group, graded, where.

  Returns:
    f32[B]; 0 in a group whose mean is not positive (no success, no signal).

  Source: Maximum Likelihood Reinforcement Learning (arXiv 2602.02710).
  Provenance: read in public notes on the paper and in the description of TRL's
  MaxRL script (huggingface/trl examples/scripts/maxrl.py), which adds an eps to
  the mean; paper not read. This is the centred form, which drops the update of a
  group without success: its order is n - 1, not n.
  """
  reward, where = inputs.graded_reward(rollout)
  mean = groups.mean(reward, rollout.group, where)
  scaled = (reward - mean) / jnp.where(mean > 0, mean, 1.0)
  return groups.zero_off(jnp.where(mean > 0, scaled, 0.0), where)


def pass_at_k_grpo(rollout: types.Rollout, *, k: int = 4, correct_at: float = 1.0) -> Array:
  """The normalised advantage of a response as a member of all subsets of k responses.

  A subset is right if any member is. Of n responses c are right, m = n - c wrong:
    miss = C(m, k) / C(n, k)              the share of subsets that are all wrong
    sigma = sqrt(miss * (1 - miss))
    A(right) = miss / sigma
    A(wrong) = (miss - C(m - 1, k - 1) / C(n - 1, k - 1)) / sigma

  Args:
    rollout: reads columns (column 0 is the outcome), group, graded, where.
    k: at least 1; 1 is GRPO on the outcome.
    correct_at: outcome that counts as right.

  Returns:
    f32[B], of mean 0 in a group. Zero where every subset has a right member
    (m < k, so also where n < k) or none has.

  Raises:
    ValueError: k is below 1.

  Source: Pass@k Training (arXiv 2508.10751), the analytical form. Provenance:
  code read (InternLM/xtuner: v1/rl/advantage, PassKEstimator; there n = k);
  paper's abstract. Another method of the same name pays only the best response
  of a group (arXiv 2503.19595).
  """
  if k < 1:
    raise ValueError(f'pass_at_k_grpo: k={k} must be at least 1.')
  where = types.graded(rollout)
  right = inputs.correct(rollout, correct_at)
  total = groups.count(rollout.group, where).astype(jnp.float32)
  wrong = total - groups.sum(right.astype(jnp.float32), rollout.group, where)
  # C(m - 1, k - 1) / C(n - 1, k - 1): the others of a subset are wrong, too.
  others = jnp.ones_like(total)
  for i in range(1, k):
    others *= jnp.maximum(wrong - i, 0.0) / jnp.maximum(total - i, 1.0)
  miss = others * wrong / jnp.maximum(total, 1.0)
  variance = miss * (1 - miss)
  signal = where & (variance > 0)
  sigma = jnp.sqrt(jnp.where(signal, variance, 1.0))
  return jnp.where(signal, (miss - jnp.where(right, 0.0, others)) / sigma, 0.0)
