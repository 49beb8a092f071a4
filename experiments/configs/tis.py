"""TIS: each token's sampler-to-trainer importance weight, truncated at 2.

    python -m experiments.run --config=experiments/configs/tis.py:size=tiny

Source: the standard baseline for mismatched samplers, as AIS (arXiv 2605.13907)
has it. GRPO with the correction `token_truncated`; the response's own weight is
":correction=sequence_truncated" or "geometric_truncated". Expect a run like
grpo.py on the toy, whose sampler is the trainer.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import corrections
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.correction = spec.spec(corrections.token_truncated)
  return tables.choose(c, arg)
