"""Cliff: a judge marks the first mistake, and only what follows it is blamed.

    python -m experiments.run --config=experiments/configs/cliff.py:size=tiny

Source: Cliff (arXiv 2609.02817). Changes from GRPO: the task is a sum of three
numbers, answered by a step and the answer ('2+3+4=' by '5+4=9'); its verifier
marks the first wrong step of wrong answers, here by a rule in place of a teacher
that solves the task itself; the tokens before the mark get the group's offset
instead of blame. `--config.advantage.prefix_weight=1` pays them like a right
answer's.
Expect on the toy an outcome from 0.6 in the first ten of its 100 steps to 0.8 in the
last ten; GRPO (":advantage=grpo") does about as well there.
Provenance: method section read, appendices not.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import envs
from rlvr import spec
from rlvr import verifiers


def get_config(arg=None):
  c = base.defaults(arg)
  tiny = tables.parse(arg).get('size') == 'tiny'
  c.env = spec.spec(
      envs.sum_chain_tiny if tiny else envs.sum_chain,
      verifier=spec.spec(verifiers.judged_steps, judged='wrong'))
  if tiny:
    c.rollout.max_tokens = 8  # '10+5=15' and a stop token
    c.num_steps = 100
    c.rollout.prompts = 16
    c.model.warm_start_steps = 100
  c.advantage = spec.spec(advantages.cliff)
  return tables.choose(c, arg)
