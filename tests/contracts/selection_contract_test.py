"""Every entry of SELECTION and MASKS passes its stage's contract."""

import functools

import pytest

from rlvr import contracts
from rlvr import masks
from rlvr import selection

# Ties among equal rewards, or equal lengths, are broken by row order.
BY_ROW_ORDER = frozenset({'drop_pivot', 'rorecomp'})


@pytest.mark.parametrize('name', selection.SELECTION)
def test_selection(name):
  contracts.check_selection(selection.SELECTION[name], permutes=name not in BY_ROW_ORDER)


# What a mask has no default for.
MASK_OPTIONS = {'answer_anchor': {'marker': (5,)}}


@pytest.mark.parametrize('name', masks.MASKS)
def test_mask(name):
  contracts.check_mask(functools.partial(masks.MASKS[name], **MASK_OPTIONS.get(name, {})))
