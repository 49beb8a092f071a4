"""CISPO: the importance weight is clipped, no token loses its gradient.

    python -m experiments.run --config=experiments/configs/cispo.py:size=tiny

Source: MiniMax-M1 (arXiv 2506.13585). Changes from GRPO: the loss is log-probability
times a frozen ratio of at most 5 times the advantage; four minibatches a batch, so
that there is a ratio. The term's value means nothing. Expect on the toy an outcome
from 0.3 to 0.45 in its 60 steps and a weight near 1.
Provenance: code read (volcengine/verl core_algos.py; huggingface/trl docs); report
from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.score_function, weight=spec.spec(losses.weights.cispo, high=5.0))
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
