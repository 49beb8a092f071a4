"""V0.5: four responses a prompt, fused with what is remembered of it; more where they disagree.

    python -m experiments.run --config=experiments/configs/v0_5.py:size=tiny

Source: V0.5 (arXiv 2603.10848). Changes from GRPO: twice the prompts at half the
responses, and the baseline is the running success rate of the prompt unless the
responses contradict it by more than their noise. The paper's prior is a value model;
here it is the memory `success_rate`, and any part that fills extras['prior'] serves.
Where prior and mean disagree beyond their noise, up to 32 more responses are bought
in rounds, at most 16 a prompt, as long as one takes more off the error than it costs.
Expect on the toy an outcome from 0.3 to 0.5 in its 60 steps, and extra_rows of 4 to
32 a step, in one to three extra_rounds.
Provenance: abstract and a public reading note with the formulas; paper and code not
seen.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import allocators
from rlvr import memories
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.rollout.prompts = 16
  c.rollout.responses = 4
  c.rollout.slots_per_prompt = 4
  c.eval.pass_at = (1, 3)
  c.rollout.extra_rows = 32
  c.batch.cell_rows = 32  # room beside a group of 16
  c.allocator = spec.spec(allocators.osla, add=4, low=0.0, high=1.0)  # outcomes are 0 or 1
  c.memory.success_rate = spec.spec(memories.success_rate)
  c.advantage = spec.spec(advantages.v0_5, low=0.0, high=1.0)
  return tables.choose(c, arg)
