"""ARC: responses are compared under one interaction strategy, and asked without one in the end.

    python -m experiments.run --config=experiments/configs/arc.py:size=tiny

Source: ARC (arXiv 2608.13622). Changes from GRPO: each training prompt carries one
of several instructions, the same for all its responses, the advantage is r - mean
without a std, and an entropy bonus of 0.001 keeps the forms apart; held-out prompts
carry none. For strategies that are told apart after the fact, by a parser that puts
their ids into extras, set --config.advantage.label; for a reward of several parts,
":reward=weighted_columns". Expect on the toy, where a '?' is
the instruction, an outcome from 0.4 to 0.6 in its 60 steps.
Provenance: abstract and a public summary with the formulas; paper and code not seen.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import envs
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  if tables.parse(arg).get('size') == 'tiny':
    c.env = spec.spec(
        envs.with_strategies, base=spec.spec(envs.addition_tiny), strategies=('', '?'))
  else:
    c.env = spec.spec(
        envs.with_strategies,
        base=spec.spec(envs.addition, template='What is {a} + {b}?'),
        strategies=(' Answer with just the number.', ' Explain, and end with the number.'))
    c.rollout.max_tokens = 64
  c.advantage = spec.spec(advantages.arc)
  c.losses.entropy = tables.term(spec.spec(losses.entropy_bonus), coef=1e-3)
  return tables.choose(c, arg)
