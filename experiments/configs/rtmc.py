"""RTMC: each turn is credited by what the prompt's other rollouts got from the same state.

    python -m experiments.run --config=experiments/configs/rtmc.py:size=tiny

Source: RTMC (arXiv 2604.11037). Changes from GRPO: rollouts of up to three turns with a
tool that looks up a key; the state is the sequence of earlier queries, and a turn's
advantage is the mean return of its query in its state less the state's smoothed mean.
Expect on the toy a policy that starts from 20 supervised steps and asks before it answers;
no result is claimed beyond that it runs.
Provenance: abstract only, reconstructed: the smoothing and its default are ours.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import envs
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.env = spec.spec(envs.look_up_tiny)
  c.rollout.max_turns = 3
  if tables.parse(arg).get('size') == 'tiny':
    c.rollout.max_tokens = 16
    c.model.warm_start_steps = 20
  c.advantage = spec.spec(advantages.rtmc)
  return tables.choose(c, arg)
