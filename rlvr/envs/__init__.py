"""Environments: tasks with prompts, reference answers and a verifier, on the host."""

from rlvr import spec
from rlvr.envs.chains import sum_chain
from rlvr.envs.chains import sum_chain_tiny
from rlvr.envs.env import Env
from rlvr.envs.from_files import questions
from rlvr.envs.gym import reasoning_gym
from rlvr.envs.look_up import look_up_tiny
from rlvr.envs.sums import addition
from rlvr.envs.sums import addition_tiny
from rlvr.envs.wrappers import regraded
from rlvr.envs.wrappers import two_sums
from rlvr.envs.wrappers import with_strategies

ENVS = spec.make_table(
    addition, addition_tiny, look_up_tiny, questions, reasoning_gym, regraded, sum_chain,
    sum_chain_tiny, two_sums, with_strategies)

__all__ = ['ENVS', 'Env', *ENVS]
