"""DAPO: clip-higher, token mean, a soft penalty on length, dynamic sampling.

    python -m experiments.run --config=experiments/configs/dapo.py:size=tiny

Source: DAPO (arXiv 2503.14476). Changes from GRPO: the upper clip is 0.28, every
token of the batch weighs the same, the last fifth of the length budget costs up
to half an outcome (the paper's outcome is +1 or -1 and its factor 1, ours 1 or
0), and prompts are drawn, for at most four rounds, until every group of the batch
has right and wrong answers. The ramp follows --config.rollout.max_tokens.
Expect dead_groups at 0, paid for in 'rounds' and sampled_tokens as the policy
gets better, and an outcome (of the groups that are kept) from 0.3 to 0.5 in the
60 steps of the toy. A step that finds no group at all is skipped.
Provenance: code read (volcengine/verl: reward_manager/dapo.py and the recipe
settings; huggingface/trl docs); paper from knowledge.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import rewards
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.losses.pg.term = spec.spec(
      losses.surrogate, clip=spec.spec(losses.clips.ppo_clip, low=0.2, high=0.28))
  c.aggregate = spec.spec(aggregate.token_mean)
  limit = c.rollout.get_oneway_ref('max_tokens')
  c.reward = spec.spec(
      rewards.overlong_penalty, max_tokens=limit, factor=0.5,
      cache_tokens=(limit + 4) // 5)  # a fifth, as 4096 of 20480
  c.rollout.max_rounds = 4  # dynamic sampling
  return tables.choose(c, arg)
