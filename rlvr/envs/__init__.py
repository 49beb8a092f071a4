"""Environments: tasks with prompts, reference answers and a verifier, on the host."""

from rlvr import spec
from rlvr.envs.env import Env
from rlvr.envs.from_files import questions
from rlvr.envs.gym import reasoning_gym
from rlvr.envs.sums import addition
from rlvr.envs.sums import addition_tiny

ENVS = spec.make_table(addition, addition_tiny, questions, reasoning_gym)

__all__ = ['ENVS', 'Env', *ENVS]
