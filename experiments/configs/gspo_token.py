"""GSPO-token: the ratio of the response on every token, the gradient of its own.

    python -m experiments.run --config=experiments/configs/gspo_token.py:size=tiny

Source: Group Sequence Policy Optimization (arXiv 2507.18071), its token variant, for
advantages that differ inside a response; where they do not it is gspo.py. Changes from
GRPO: as there. Expect on the toy a run like gspo.py.
Provenance: code read (volcengine/verl core_algos.py; huggingface/trl docs); paper from
knowledge.
"""

from experiments import tables
from experiments.configs import gspo
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = gspo.defaults(arg)
  c.losses.pg.term.ratio = spec.spec(losses.ratios.sequence_token_ratio)
  return tables.choose(c, arg)
