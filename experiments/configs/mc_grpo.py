"""MC-GRPO: the median of a small group as its baseline; one more response, one less trained.

    python -m experiments.run --config=experiments/configs/mc_grpo.py:size=tiny

Source: MC-GRPO (arXiv 2601.22582). Changes from GRPO: 4 + 1 responses a prompt, the
advantage is centred at the group's lower median and divided by the median
deviation, and the row that is the median is not trained. Rewards of 0 and 1 have a
median deviation of 0 in an odd group, and the official rule then gives the minority
+-1000; here the group's std stands in (--config.advantage.fallback=none is the
official one). Expect 'selected' at 0.8, a row in five left out, and on the toy an
outcome from 0.3 to 0.45 in its 60 steps; with rewards of two levels the median flips
no sign that the mean does not.
Provenance: official code read (lotusroot-kim/MC-GRPO); body of the paper not seen.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import selection
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.rollout.prompts = 16
  c.rollout.responses = 5  # four to train, and the pivot
  c.rollout.slots = 80
  c.rollout.slots_per_prompt = 5
  c.batch.cell_rows = 20
  c.advantage = spec.spec(advantages.mc_grpo, fallback='std')
  c.selection = spec.spec(selection.drop_pivot)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  return tables.choose(c, arg)
