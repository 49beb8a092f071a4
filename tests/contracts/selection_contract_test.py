"""Every entry of SELECTION and MASKS passes its stage's contract."""

import pytest

from rlvr import contracts
from rlvr import masks
from rlvr import selection

# Ties among equal rewards, or equal lengths, are broken by row order.
BY_ROW_ORDER = frozenset({'drop_pivot', 'rorecomp'})


@pytest.mark.parametrize('name', selection.SELECTION)
def test_selection(name):
  contracts.check_selection(selection.SELECTION[name], permutes=name not in BY_ROW_ORDER)


@pytest.mark.parametrize('name', masks.MASKS)
def test_mask(name):
  contracts.check_mask(masks.MASKS[name])
