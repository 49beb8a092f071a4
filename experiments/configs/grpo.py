"""GRPO: the group-normalised advantage and the clipped token ratio.

    python -m experiments.run --config=experiments/configs/grpo.py:size=tiny

Source: DeepSeekMath (arXiv 2402.03300); no KL, as in most later recipes: add it
with ":losses.kl=kl_loss" and --config.losses.kl.coef=0.04. Expect on the toy an
outcome from 0.3 to 0.4 in its 60 steps, and 0.7 with --config.num_steps=200.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  return tables.choose(c, arg)
