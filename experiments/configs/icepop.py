"""IcePop: tokens that sampler and trainer disagree on by too much are dropped.

    python -m experiments.run --config=experiments/configs/icepop.py:size=tiny

Source: Every Step Evolves (arXiv 2510.18855), from knowledge. GRPO with the
correction `token_masked`, 0 outside 0.5 to 5; whole responses are dropped by
":correction=sequence_masked", "geometric_masked" or "kl_rejection". Expect a run
like grpo.py on the toy, whose sampler is the trainer: the metric `active` is 1.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import corrections
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.correction = spec.spec(corrections.token_masked)
  return tables.choose(c, arg)
