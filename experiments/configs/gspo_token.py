"""GSPO-token: the ratio of the response on every token, the gradient of its own.

    python -m experiments.run --config=experiments/configs/gspo_token.py:size=tiny

Source: Group Sequence Policy Optimization (arXiv 2507.18071), its token variant, for
advantages that differ inside a response; where they do not it is gspo.py. Changes from
GRPO: as there. Expect on the toy a run like gspo.py.
Provenance: code read (volcengine/verl core_algos.py; huggingface/trl docs); paper from
knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.surrogate, ratio=spec.spec(losses.ratios.sequence_token_ratio),
      clip=spec.spec(losses.clips.ppo_clip, low=3e-4, high=4e-4))
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
