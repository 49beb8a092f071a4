"""Advantages: (rollout) -> f32[B] or f32[B, T], and their transforms."""

from rlvr import spec
from rlvr.advantages import group_relative
from rlvr.advantages import returns
from rlvr.advantages import transforms

grpo = group_relative.grpo
dr_grpo = group_relative.dr_grpo
rloo = group_relative.rloo
reinforce = returns.reinforce
gae = returns.gae

# gae is for notebooks: no part fills the values that it reads.
ADVANTAGES = spec.make_table(grpo, dr_grpo, rloo, reinforce)
TRANSFORMS = transforms.TRANSFORMS

# Baselines taken from the other members: with one response a prompt they are 0
# everywhere, which a config must refuse.
GROUP_BASELINES = frozenset({'grpo', 'dr_grpo', 'rloo'})
