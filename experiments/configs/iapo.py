"""IAPO: a rollout's advantage goes to the turns that later turns built on.

    python -m experiments.run --config=experiments/configs/iapo.py:size=tiny

Source: IAPO: Influence-Aware Policy Optimization for Credit Assignment in Multi-Turn
Service Agents (arXiv 2608.24588). Changes from GRPO: rollouts of up to three turns with a
tool that looks up a key; in a success the turns that supply or use information earn more,
in a failure the turns in error are blamed. Who used what is found by comparing words.
Expect on the toy an outcome from 0.45 in the first ten of its 60 steps to 0.69 in the last
ten, as GRPO's 0.45 to 0.67 (three seeds, no difference beyond noise: chains of two turns
leave little to route). Paper (Qwen3-8B, tau2-Bench): 29.6 -> 42.2 over GRPO, a narrow
optimum in `clip`.
Provenance: method and experiments read, appendices not; the annotator is ours.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import spec


def get_config(arg=None):
  c = base.several_turns(arg)
  c.advantage = spec.spec(advantages.iapo)
  return tables.choose(c, arg)
