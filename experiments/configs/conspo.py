"""ConSPO: right answers are contrasted with the wrong ones of their group.

    python -m experiments.run --config=experiments/configs/conspo.py:size=tiny

Source: ConSPO (arXiv 2605.12969). Changes from GRPO: no advantage and no ratio enters;
the loss is an InfoNCE over mean log-likelihoods, with a margin that grows to 0.1 over
the run, averaged over the prompts that have answers of both kinds. Fresh data, one
update a batch. Expect on the toy an outcome from 0.2 to 0.3 in its 60 steps and a
score_gap from 0.9 to 1.1.
Provenance: abstract and a third-party note; formula, temperature, margin and one-sided
groups are reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg = tables.term(
      spec.spec(losses.conspo, ramp_steps=c.get_oneway_ref('num_steps')),
      mask=masks.two_sided_tokens, aggregate=spec.spec(aggregate.prompt_mean_seq_mean))
  return tables.choose(c, arg)
