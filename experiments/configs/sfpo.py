"""SFPO: three fast steps on a batch, back towards the start, one slow step.

    python -m experiments.run --config=experiments/configs/sfpo.py:size=tiny

Source: SFPO (arXiv 2510.04072), official code read. GRPO with the wrapper `sfpo`
around its update; its control, four updates a batch, is
--config.stepping.alpha=1.0. Expect on the toy a higher outcome than grpo.py at the
same number of rollouts while sfpo_alpha is 0.8, which is about the first 30
steps: a trend in the entropy latches it at 0.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import spec
from rlvr.train import slow_fast


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.stepping = spec.spec(slow_fast.sfpo)
  return tables.choose(c, arg)
