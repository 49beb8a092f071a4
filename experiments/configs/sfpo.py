"""SFPO: three fast steps on a batch, back towards the start, one slow step.

    python -m experiments.run --config=experiments/configs/sfpo.py:size=tiny

Source: SFPO (arXiv 2510.04072), official code read. GRPO with the wrapper `sfpo`
around its update; its control, four updates a batch, is
--config.stepping.alpha=1.0. A step moves about 3.4 times as far as GRPO's: at
the toy's rate of 1e-3 the outcome falls, so the toy takes 3e-4. Expect from 0.34 to
0.48 in its 60 steps, of which GRPO at that rate reaches 0.46 (one seed), and
sfpo_alpha at 0.8 for about the first 30: then a trend in the entropy latches it
at 0.
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
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4
  return tables.choose(c, arg)
