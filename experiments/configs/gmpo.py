"""GMPO: each token's log-ratio is clipped, then a response's ratio is their mean.

    python -m experiments.run --config=experiments/configs/gmpo.py:size=tiny

Source: Geometric-Mean Policy Optimization (arXiv 2507.20673). Changes from GRPO: the
ratio is a response's geometric mean, clipped token by token at 0.4 nats on the side
where the advantage pushes, before it is averaged; four minibatches a batch; every
response weighs the same. Expect on the toy an outcome from 0.3 to 0.4 in its 60 steps
(clip_share is not counted: the clip is inside the ratio).
Provenance: code read (volcengine/verl core_algos.py, geo_mean); paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.surrogate, ratio=spec.spec(losses.ratios.gmpo_ratio),
      clip=spec.spec(losses.clips.no_clip))
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
