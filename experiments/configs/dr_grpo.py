"""Dr. GRPO: no division by the group's std, one constant divisor instead of lengths.

    python -m experiments.run --config=experiments/configs/dr_grpo.py:size=tiny

Source: Understanding R1-Zero-Like Training (arXiv 2503.20783). Changes from
GRPO: advantage r - mean, and every token weighs 1 / (rows * C) with C the
generation limit, which follows --config.rollout.max_tokens. C scales all loss
terms that share config.aggregate, so with Adam it matters only against clipping
by norm. Expect wrong answers that do not grow longer, and on the toy an
outcome from 0.3 to 0.4 in its 60 steps (0.6 with --config.num_steps=200).
Provenance: official code read (sail-sg/understand-r1-zero:train_zero_math.py);
paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.dr_grpo)
  limit = c.rollout.get_oneway_ref('max_tokens')
  c.aggregate = spec.spec(aggregate.seq_sum_constant, constant=limit.to_float())
  return tables.choose(c, arg)
