"""A soft length penalty on prompts that are mastered, in a phase between two of plain GRPO.

    python -m experiments.run --config=experiments/configs/overthinking.py:size=tiny

Source: Reinforcement Learning for Chain of Thought Compression with
One-Domain-to-All Generalization (arXiv 2601.06052). Changes from GRPO: where every
response of a group is right, those longer than the shortest are pushed down, by up to
0.2, in the middle third of the run; groups without any advantage leave the divisors,
and all-right groups stay in, since there the penalty acts. Expect 'length_right' to
fall in the middle third where right answers come in several lengths. The toy's
numbers have one each, so it only shows that nothing is lost: an outcome of 0.65, a
quarter of the groups all right, with --config.num_steps=200.
Provenance: abstract only, reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import selection
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  steps = c.get_oneway_ref('num_steps')
  c.advantage = spec.spec(
      advantages.overthinking, start_step=steps // 3, end_step=steps * 2 // 3)
  c.selection = spec.spec(selection.live_groups)
  return tables.choose(c, arg)
