"""REINFORCE++ with the group's mean as baseline, whitened over the tokens of the batch.

    python -m experiments.run --config=experiments/configs/reinforce_pp_baseline.py:size=tiny

Source: REINFORCE++ (arXiv 2501.03262). Changes from GRPO: r - mean of the group is
divided by the std of the whole batch's tokens instead of the group's, so that the
rare failure of an easy prompt is not blown up, and the KL is a loss of its own, k2.
Expect on the toy an outcome from 0.3 to 0.4 in its 60 steps.
Provenance: code read (OpenRLHF experience_maker.py, volcengine/verl core_algos.py);
paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.reinforce_pp_baseline)
  c.losses.kl = tables.term(spec.spec(losses.kl_loss), coef=1e-3)  # k2
  return tables.choose(c, arg)
