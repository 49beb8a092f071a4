"""Every entry of CORRECTIONS passes its stage's contract."""

import pytest

from rlvr import contracts
from rlvr import corrections


@pytest.mark.parametrize('name', corrections.CORRECTIONS)
def test_correction(name):
  contracts.check_correction(corrections.CORRECTIONS[name])
