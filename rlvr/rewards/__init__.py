"""Rewards: (rollout) -> f32[B]."""

from rlvr import spec
from rlvr.rewards import columns
from rlvr.rewards import flawed
from rlvr.rewards import rubric
from rlvr.rewards import shaping

outcome = shaping.outcome
overlong_penalty = shaping.overlong_penalty
kl_in_reward = shaping.kl_in_reward
overlong_ramp = shaping.overlong_ramp
at_last_token = shaping.at_last_token
weighted_columns = columns.weighted_columns
fapo = flawed.fapo
rrt = rubric.rrt

REWARDS = spec.make_table(outcome, overlong_penalty, kl_in_reward, weighted_columns, fapo, rrt)
