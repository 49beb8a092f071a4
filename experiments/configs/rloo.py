"""RLOO: REINFORCE with a leave-one-out baseline, the whole response as one action.

    python -m experiments.run --config=experiments/configs/rloo.py:size=tiny

Source: Back to Basics (arXiv 2402.14740). Changes from GRPO: the baseline of a
row is the mean of the others of its group, no std, no ratio and no clip, and a
response weighs the sum of its tokens. The paper's KL inside the reward is off;
add it with ":reward=kl_in_reward" and --config.score_first=True (coef 0.03).
Expect on the toy an outcome from 0.3 to 0.4 in its 60 steps, and 0.7 with
--config.num_steps=200.
Provenance: code read (volcengine/verl core_algos.py, OpenRLHF/OpenRLHF
experience_maker.py, huggingface/trl docs); paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.rloo)
  c.losses.pg.term = spec.spec(losses.policy_gradient)
  c.aggregate = spec.spec(aggregate.seq_sum)
  return tables.choose(c, arg)
