"""GRPO: the group-normalised advantage and the clipped token ratio.

    python -m experiments.run --config=experiments/configs/grpo.py:size=tiny

Source: DeepSeekMath (arXiv 2402.03300); no KL, as in most later recipes: add it
with ":losses.kl=kl_loss" and --config.losses.kl.coef=0.04. Expect reward to rise
from chance within the first hundred steps of the toy.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  return tables.choose(c, arg)
