"""Factorised rewards: each segment of a response is credited by its own reward only.

    python -m experiments.run --config=experiments/configs/factorized_reward.py:size=tiny

Source: Efficient Reinforcement for Visual-Textual Thinking with Discrete Diffusion
Model (arXiv 2606.14792). Changes from GRPO: the prompt holds two sums, '3+4;2+5=',
the verifier grades both answers, and the tokens up to the ';' get the advantage of
the first, those after it the advantage of the second; both segments weigh the same.
The joint way is --config.advantage.base.route='((0,1,1),(0,1,1))'. Expect both columns
of the log to rise on the toy, the outcome (their mean) from 0.5 to 0.65 in its 60 steps.
Provenance: abstract only, reconstructed; segments of text stand for text and image.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import envs
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  if tables.parse(arg).get('size') == 'tiny':
    c.env = spec.spec(envs.two_sums)
    c.rollout.max_tokens = 6  # '17;12' and a stop
    separator = 3 + ord(';')  # the toy's ids are bytes
  else:
    c.env = spec.spec(
        envs.two_sums, low=1, high=20, num_held_out=64,
        template='What is {first}, and what is {second}? Answer like 12;34 and nothing else.')
    separator = 43  # ';' in SmolLM2
  outcome_first = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))  # columns: outcome, part_1, part_2
  credit = spec.spec(
      advantages.factorized_reward, route=outcome_first, split_token=separator)
  c.advantage = spec.spec(advantages.segment_mean, base=credit, split_token=separator)
  return tables.choose(c, arg)
