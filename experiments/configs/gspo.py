"""GSPO: one ratio a response, the geometric mean of its tokens', clipped as a whole.

    python -m experiments.run --config=experiments/configs/gspo.py:size=tiny

Source: Group Sequence Policy Optimization (arXiv 2507.18071). Changes from GRPO: the
ratio is the response's, within 1e-3 of 1, so is the clip range; four minibatches a
batch; every response weighs the same. Expect on the toy an outcome from 0.3 to 0.4 in
its 60 steps, with a third of the tokens clipped.
Provenance: code read (volcengine/verl core_algos.py; huggingface/trl docs); paper from
knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  return tables.choose(defaults(arg), arg)


def defaults(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.surrogate, ratio=spec.spec(losses.ratios.sequence_ratio),
      clip=spec.spec(losses.clips.ppo_clip, low=3e-4, high=4e-4))
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return c
