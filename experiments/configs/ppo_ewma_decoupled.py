"""Decoupled PPO with an averaged proximal policy: discrepancy and staleness apart.

    python -m experiments.run --config=experiments/configs/ppo_ewma_decoupled.py:size=tiny

Source: exact old logits and revised PPO-EWMA (arXiv 2605.12070), from a third-party
article, partly reconstructed. The ratio is taken to a moving average of the last
versions, which starts again when too many tokens are cut; the gap from it to the
sampler is a frozen gate and weight. Exact old logits are ":memory.old=snapshots"
with --config.score_old=snapshots. Expect on the toy an outcome from 0.25
to 0.45 in its 60 steps, and mismatch_kl above 0 from the second: the average lags
behind the sampler.
"""

from experiments import tables
from experiments.configs import base
from rlvr import corrections
from rlvr import old_policies
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.correction = spec.spec(corrections.decoupled)
  c.memory.old = spec.spec(old_policies.ewma)
  c.score_old = old_policies.EWMA
  return tables.choose(c, arg)
