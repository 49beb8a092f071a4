"""Every entry of SELECTION and MASKS passes its stage's contract."""

import pytest

from rlvr import contracts
from rlvr import masks
from rlvr import selection


@pytest.mark.parametrize('name', selection.SELECTION)
def test_selection(name):
  contracts.check_selection(selection.SELECTION[name])


@pytest.mark.parametrize('name', masks.MASKS)
def test_mask(name):
  contracts.check_mask(masks.MASKS[name])
