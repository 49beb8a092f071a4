"""PNPO: a token weighs the geometric mean of the ratios before it, gated in a band.

    python -m experiments.run --config=experiments/configs/pnpo.py:size=tiny

Source: Reusing Rollouts under Policy Lag (arXiv 2608.01418). Changes from GRPO: the
frozen weight of a token is the mean log-ratio of its prefix, tokens outside a band
that narrows as 1 / sqrt(t) are rejected; a batch is used for four epochs of four
minibatches. The tolerances at a response's last token are 0.4 and 0.6 over
sqrt(max_tokens) (the paper's 7e-4 and 9.5e-4 are for 15360 tokens). Expect on the toy
an outcome from 0.35 to 0.5 in its 60 steps, and an `active` of 0.9.
Provenance: a detailed third-party summary read, not the paper.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  length = c.rollout.max_tokens
  c.losses.pg.term = spec.spec(
      losses.score_function,
      weight=spec.spec(losses.weights.pnpo, low=0.4 / length**0.5, high=0.6 / length**0.5))
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.batch.epochs = 4
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 1e-4  # sixteen updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
