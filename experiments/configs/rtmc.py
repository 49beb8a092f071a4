"""RTMC: each turn is credited by what the prompt's other rollouts got from the same state.

    python -m experiments.run --config=experiments/configs/rtmc.py:size=tiny

Source: RTMC (arXiv 2604.11037). Changes from GRPO: rollouts of up to three turns with a
tool that looks up a key; the state is the sequence of earlier queries, and a turn's
advantage is the mean return of its query in its state less the state's smoothed mean.
Expect on the toy an outcome from 0.38 in the first ten of its 60 steps to 0.64 in the last
ten (one seed, not compared with GRPO).
Provenance: abstract only, reconstructed: the smoothing and its default are ours.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import spec


def get_config(arg=None):
  c = base.several_turns(arg)
  c.advantage = spec.spec(advantages.rtmc)
  return tables.choose(c, arg)
