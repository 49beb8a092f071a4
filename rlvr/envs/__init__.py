"""Environments: tasks with prompts, reference answers and a verifier, on the host."""

from rlvr import spec
from rlvr.envs.addition import addition, addition_tiny
from rlvr.envs.env import Env
from rlvr.envs.gym import reasoning_gym
from rlvr.envs.questions import questions

ENVS = spec.make_table(addition, addition_tiny, questions, reasoning_gym)

__all__ = ['ENVS', 'Env', *ENVS]
