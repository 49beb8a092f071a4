"""REINFORCE++: returns of tokens whitened over the whole batch, no group at all.

    python -m experiments.run --config=experiments/configs/reinforce_pp.py:size=tiny

Source: REINFORCE++ (arXiv 2501.03262). Changes from GRPO: the advantage of a token
is its return, the outcome less 0.01 per nat of KL that the later tokens cost,
whitened over the tokens of the batch; so log-probabilities and the reference are
scored before the rewards. One response a prompt is enough
(--config.rollout.responses=1 --config.rollout.prompts=64); the group form is
reinforce_pp_baseline.py. Expect on the toy an outcome from 0.3 to 0.4 in its 60
steps.
Provenance: code read (OpenRLHF experience_maker.py, by the method's authors' group;
volcengine/verl core_algos.py); paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.reinforce_pp)
  c.score_first = True  # the KL is part of the return
  return tables.choose(c, arg)
