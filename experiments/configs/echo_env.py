"""ECHO: GRPO, and the policy also learns to predict what the environment answers.

    python -m experiments.run --config=experiments/configs/echo_env.py:size=tiny

Source: ECHO: Terminal Agents Learn World Models for Free (arXiv 2605.24517). Changes
from GRPO: rollouts of up to three turns with a tool that looks up a key, and a term
-logp on the tool's answers, 0.05 of their mean, also in groups without advantage.
Expect on the toy, in the mean of the first and the last ten of its 60 steps, an observation
nll from 7.5 to 2.5 and an outcome from 0.35 to 0.55 (one seed, not compared with GRPO).
Provenance: abstract, a review and two independent implementations read; official code
not seen.
"""

from experiments import tables
from experiments.configs import base
from rlvr import losses
from rlvr import spec


def get_config(arg=None):
  c = base.several_turns(arg)
  c.losses.env = tables.term(spec.spec(losses.echo_env), coef=0.05)
  return tables.choose(c, arg)
