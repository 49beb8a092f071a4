"""Constant step normaliser: every step of a long failure gets its full negative gradient.

    python -m experiments.run --config=experiments/configs/konst_len.py:size=tiny

Source: AsyncWebRL (arXiv 2606.05597). Changes from GRPO: the advantage of a trajectory
is divided by a constant 10 instead of its number of steps, tokens are weighed by
policy / sampler and left out above 5, the clip is dual at 3, and a batch is used
twice in two minibatches. Single-turn tasks have one-step trajectories: there it is
GRPO with a tenth of the gradient, which Adam undoes. Expect on the toy an outcome
from 0.35 to 0.45 in its 60 steps of four updates; shorter failures show only where an
episode has several rows.
Provenance: official code read (microsoft/webgym, async code base); paper through its
abstract. The official run makes three passes.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import corrections
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.konst_len, k=10.0)
  c.losses.pg.term = spec.spec(
      losses.surrogate, clip=spec.spec(losses.clips.ppo_clip, dual=3.0))
  c.correction = spec.spec(corrections.token_masked, low=0.0, high=5.0)
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; at 1e-3 the toy falls
  c.batch.epochs = 2
  c.batch.minibatches = 2
  return tables.choose(c, arg)
