"""TBPO: a response's ratio in a band that is closed on both sides for bad responses.

    python -m experiments.run --config=experiments/configs/tbpo.py:size=tiny

Source: QaRL (arXiv 2604.07853), its loss. Changes from GRPO: the ratio is GSPO's; a
response with A < 0 is silent on either side of the clip range; a frozen weight, the
same mean between learner and sampler, drops responses outside [0.5, 2]; four
minibatches a batch. The quantised sampler that it is made for is another part: here
the weight is 1. Expect on the toy an outcome from 0.3 to 0.4 in its 60 steps, with
half of the tokens clipped.
Provenance: abstract and two machine-made summaries of the paper read; bounds, the gate
on the weight and the side left to positives are reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import corrections
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.surrogate, ratio=spec.spec(losses.ratios.sequence_ratio),
      clip=spec.spec(losses.clips.tbpo_clip, low=3e-4, high=4e-4))
  c.correction = spec.spec(corrections.geometric_masked, low=0.5, high=2.0)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
