"""KLPO: the log-ratio to the sampler is fitted to the reward; no ratio, clip or group.

    python -m experiments.run --config=experiments/configs/klpo.py:size=tiny

Source: On KL-Regularized Policy Optimization (arXiv 2610.08963). One response a
prompt; each of its tokens is pushed with reward - beta * log-ratio, and 16 further
tokens, which the sampler draws at the same prefix, against it: the part of an
intercept. A response weighs the sum of its tokens. Without the draws it is
--config.losses.pg.term.estimator=binary, on whole responses .route=sequence. Expect on
the toy an outcome from 0.3 to 0.6 in its 60 steps.
Provenance: official code and its algorithm reference read (yifanzhang-pro/KLPO); paper
not read.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.rollout.prompts = 64  # the paper has 128 prompts a batch
  c.rollout.responses = 1
  c.rollout.slots_per_prompt = 1
  c.rollout.num_draws = 16
  c.eval.pass_at = (1,)
  c.losses.pg = tables.term(
      spec.spec(losses.klpo, beta=0.1), mask=masks.graded_tokens,
      aggregate=spec.spec(aggregate.seq_sum))
  c.advantage = spec.spec(advantages.reinforce)  # is not read: the reward is
  return tables.choose(c, arg)
