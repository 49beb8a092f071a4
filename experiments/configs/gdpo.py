"""GDPO: each reward is normalised in its group on its own, then they are added.

    python -m experiments.run --config=experiments/configs/gdpo.py:size=tiny

Source: GDPO (arXiv 2601.05242). Changes from GRPO: the verifier's named parts are
rewards of their own, the sum of their normalised advantages is whitened over the
batch, and only groups without any advantage are left out. At full size the parts
are the form, <think> and <answer> tags, and what is in it; on the toy, the two
answers to two sums in one prompt, '3+4;2+5='. The raw outcome is a mix of the parts
and has weight 0. GRPO on their sum is ":advantage=grpo,reward=weighted_columns" with
--config.reward.weights='(0.,1.,1.)'. Expect on the
toy an outcome (the mean of its parts) from 0.5 to 0.6 in its 60 steps, and 'selected'
near 1: a group dead in one part is alive in the other.
Provenance: official code read (NVlabs/GDPO); abstract.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import aggregate
from rlvr import envs
from rlvr import selection
from rlvr import spec
from rlvr import verifiers


def get_config(arg=None):
  c = base.defaults(arg)
  if tables.parse(arg).get('size') == 'tiny':
    c.env = spec.spec(envs.two_sums)
    c.rollout.max_tokens = 6  # '17;12' and a stop
  else:
    question = ('What is {a} + {b}? Reason between <think> and </think>, then give just the '
                'number between <answer> and </answer>.')
    c.env = spec.spec(
        envs.regraded, base=spec.spec(envs.addition, template=question),
        verifier=spec.spec(
            verifiers.tagged_answer, verifier=spec.spec(verifiers.last_number),
            format_weight=0.2))
    c.rollout.max_tokens = 96
  c.advantage = spec.spec(advantages.gdpo, weights=(0.0, 1.0, 1.0))  # outcome, then the parts
  c.selection = spec.spec(selection.live_groups)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  return tables.choose(c, arg)
