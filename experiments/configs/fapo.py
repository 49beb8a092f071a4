"""FAPO: a right answer reached by flawed reasoning is paid less.

    python -m experiments.run --config=experiments/configs/fapo.py:size=tiny

Source: FAPO (arXiv 2510.22543). Changes from GRPO: the task is a sum of three
numbers, answered by a step and the answer ('2+3+4=' by '5+4=9'); its verifier
looks, by a rule in place of a small generative judge, for a wrong step in right
answers only, and one that has it earns 0 in place of 1, a wrong answer -1; the
upper clip is 0.28, the negative side is capped at ratio 10, every token weighs
the same, and the last half of the length budget costs up to 1. The judge is also
asked in evaluations, where nothing reads it.
Expect on the toy an outcome from 0.6 in the first ten of its 100 steps to 0.8 in the
last ten, and 2 outcome - 1 - reward, what flaws and length cost, from 0.04 to 0.01.
Provenance: official code read (verl-project/verl-recipe:fapo), abstract and a
review; the threshold is re-derived.
"""

from experiments import tables
from experiments.configs import base
from rlvr import envs
from rlvr import losses
from rlvr import rewards
from rlvr import spec
from rlvr import verifiers


def get_config(arg=None):
  c = base.defaults(arg)
  tiny = tables.parse(arg).get('size') == 'tiny'
  c.env = spec.spec(
      envs.sum_chain_tiny if tiny else envs.sum_chain,
      verifier=spec.spec(verifiers.judged_steps, judged='right'))
  if tiny:
    c.rollout.max_tokens = 12  # '10+5=15' and a stop token, before the penalty sets in
    c.num_steps = 100
    c.rollout.prompts = 16
    c.model.warm_start_steps = 100
  limit = c.rollout.get_oneway_ref('max_tokens')
  c.reward = spec.spec(
      rewards.overlong_penalty, base=spec.spec(rewards.fapo), max_tokens=limit,
      cache_tokens=limit // 3)
  c.losses.pg.term = spec.spec(
      losses.surrogate, clip=spec.spec(losses.clips.ppo_clip, low=0.2, high=0.28, dual=10.0))
  return tables.choose(c, arg)
