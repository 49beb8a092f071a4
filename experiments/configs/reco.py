"""ReCo: what the policy already says often is pushed less, per response and per token.

    python -m experiments.run --config=experiments/configs/reco.py:size=tiny

Source: ReCo (arXiv 2607.26862). Changes from GRPO: a response's advantage is divided
by how often it is expected in its group, G times its mean probability a token, so all
rows are scored before the rewards; a token weighs the ratio of its Bernoulli variances
in place of the ratio; four minibatches a batch. Weights below 1 make the step smaller
than GRPO's: --config.transform.renorm=True keeps it; a baseline to match is
":advantage=weighted_grpo". Expect on the toy an outcome from 0.3 to 0.35 in its
60 steps, slower than GRPO for that reason.
Provenance: abstract, and two formulas as an independent reproduction note quotes them;
the rest is reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import losses
from rlvr import spec
from rlvr.advantages import transforms


def get_config(arg=None):
  c = base.defaults(arg)
  c.transform = spec.spec(transforms.TRANSFORMS['reco_weight'])
  c.losses.pg.term = spec.spec(
      losses.score_function, weight=spec.spec(losses.WEIGHTS['reco_scale']))
  c.score_first = True  # the response weight reads old_logp
  c.batch.minibatches = 4
  if tables.parse(arg).get('size') == 'tiny':
    c.optimizer.learning_rate = 3e-4  # four updates a batch; the toy falls apart at 1e-3
  return tables.choose(c, arg)
