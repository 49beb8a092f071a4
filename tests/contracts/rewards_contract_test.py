"""Every entry of REWARDS passes its stage's contract."""

import pytest

from rlvr import contracts
from rlvr import rewards


@pytest.mark.parametrize('name', rewards.REWARDS)
def test_reward(name):
  contracts.check_reward(rewards.REWARDS[name])
