"""RRT: verdicts on a rubric become one quality, by an item-response model learnt online.

    python -m experiments.run --config=experiments/configs/rrt.py:size=tiny

Source: Rubric Rewards from Item Response Theory (arXiv 2609.35646). Changes from
GRPO: the task is a sum of three numbers, answered by a step and the answer
('2+3+4=' by '5+4=9'), its verifier a rule for each of six criteria, one of them a
pitfall; the reward is the most probable quality given the verdicts, and memory
'items' learns how sharp and how hard each criterion is. Point sizes, a network
over criterion texts and its warm start are left out. For a budget of criteria a
group, `--config.reward.budget=3 --config.memory.items.learning_rate=0`, since they
are chosen with the memory frozen.
Expect on the toy an outcome from 0.6 in the first ten of its 100 steps to 0.8 in the
last ten, while the mean reward falls from 0.8 to 0.4: criteria that most responses
meet are learnt to be easy, and a quality is relative to them.
Provenance: official code read, paper body not.
"""

from experiments import tables
from experiments.configs import base
from rlvr import envs
from rlvr import memories
from rlvr import rewards
from rlvr import spec
from rlvr import verifiers

# answer, brief, form, guess, sound, start: the verifier's columns in order.
POINTS = (5, 1, 1, -2, 3, 2)


def get_config(arg=None):
  c = base.defaults(arg)
  tiny = tables.parse(arg).get('size') == 'tiny'
  c.env = spec.spec(
      envs.sum_chain_tiny if tiny else envs.sum_chain,
      verifier=spec.spec(verifiers.arithmetic_rubric))
  if tiny:
    c.rollout.max_tokens = 8  # '10+5=15' and a stop token
    c.num_steps = 100
    c.rollout.prompts = 16
    c.model.warm_start_steps = 100
  c.reward = spec.spec(rewards.rrt, points=POINTS)
  c.memory.items = spec.spec(memories.rrt_items, points=POINTS)
  return tables.choose(c, arg)
