"""EAPO: a success is credited where it was surprising, a failure where it was confident.

    python -m experiments.run --config=experiments/configs/eapo.py:size=tiny

Source: Surprising Success, Repeated Failure (arXiv 2609.33781). Changes from GRPO:
inside a response the advantage is spread over its tokens by the entropy of the
policy that wrote them, up to 4 to 1, one way for A > 0 and the other for A < 0; so
all rows are scored before the rewards. Expect on the toy an outcome from 0.3 to 0.45
in its 60 steps, as GRPO, with an entropy that falls no faster.
Provenance: official code read (wgcyeo/EAPO); paper body not read.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.eapo)
  c.score_first = True  # entropies of all tokens
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  return tables.choose(c, arg)
