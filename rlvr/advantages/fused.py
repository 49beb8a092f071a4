"""V0.5: a prior guess of the value fused with the few rollouts there are."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import order
from rlvr import types
from rlvr.advantages import inputs

Array = jax.Array

VARIANCES = ('bound', 'null')
NULL_FLOOR = 0.19  # of the variance under the prior, 1 - V^2


def fused_baseline(mean: Array, prior: Array, num: Array, variance: Array) -> Array:
  """b = w * mean + (1 - w) * prior, w = D / (D + variance / num).

  D = max(0, (mean - prior)^2 - variance / num) estimates the squared bias of the
  prior: inside one noise bound the prior is used whole, outside it fades; its
  weight is min(1, variance / (num * (mean - prior)^2)).

  Args:
    mean: [..], of num rewards.
    prior: [..], the guess.
    num: [..], at least 0; 0 gives the prior.
    variance: [..], positive, of one reward.

  Returns:
    f32[..], between mean and prior.
  """
  noise = variance / jnp.maximum(num, 1)
  bias = jnp.maximum(jnp.square(mean - prior) - noise, 0.0)
  weight = jnp.where(num > 0, bias / (bias + noise), 0.0)
  return prior + weight * (mean - prior)


def v0_5(
    rollout: types.Rollout, *, low: float = -1.0, high: float = 1.0, variance: str = 'bound'
) -> Array:
  """A = r - b, b the fused baseline of the prompt, rewards on the scale [-1, 1].

  Args:
    rollout: reads reward, prompt, prompts.id, graded, where and extras['prior']
      f32[B], the guess of each row's prompt in units of the reward (the memory
      `success_rate` gives one). All rows of one dataset id are pooled.
    low, high: the range of the reward, mapped to -1 ... 1; what lies outside is
      clipped to it.
    variance: of one reward: 'bound' is 1, the largest there is; 'null' is
      max(1 - V^2, 0.19), that of a sure outcome if the prior were right.

  Returns:
    f32[B]; 0 on ungraded rows. One response a prompt is enough. An all-equal group
    is 0 only where the prior agrees: a wrong prior is a signal, and a risk.

  Raises:
    ValueError: low is not below high, an unknown variance, or no prior.

  Source: V0.5 (arXiv 2603.10848). Provenance: abstract and a detailed public
  reading note with the formulas; paper body and code not seen. 'null' is ours; the
  value model of the paper is external.
  """
  if not low < high:
    raise ValueError(f'v0_5: low={low} must be below high={high}.')
  if variance not in VARIANCES:
    raise ValueError(f'v0_5: variance={variance!r} must be one of {", ".join(VARIANCES)}.')
  reward, where = inputs.graded_reward(rollout)
  scale = lambda x: jnp.clip(2 * (x - low) / (high - low) - 1, -1.0, 1.0)
  reward = groups.zero_off(scale(reward), where)
  prior = groups.zero_off(scale(inputs.extra(rollout, 'prior', 'v0_5')), where)
  prompt = order.dense(rollout.prompts.id[rollout.prompt])
  spread = jnp.maximum(1 - jnp.square(prior), NULL_FLOOR) if variance == 'null' else 1.0
  baseline = fused_baseline(
      groups.mean(reward, prompt, where), prior, groups.count(prompt, where), spread)
  return groups.zero_off(reward - baseline, where)
