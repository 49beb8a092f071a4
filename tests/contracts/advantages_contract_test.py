"""Every entry of ADVANTAGES and TRANSFORMS passes its stage's contract."""

import pytest

from rlvr import advantages
from rlvr import contracts


@pytest.mark.parametrize('name', advantages.ADVANTAGES)
def test_advantage(name):
  contracts.check_advantage(advantages.ADVANTAGES[name])


@pytest.mark.parametrize('name', advantages.TRANSFORMS)
def test_transform(name):
  contracts.check_transform(advantages.TRANSFORMS[name])


def test_group_baselines_are_entries():
  assert advantages.GROUP_BASELINES <= set(advantages.ADVANTAGES)
