"""Every entry of AGGREGATES passes its stage's contract."""

import pytest

from rlvr import aggregate
from rlvr import contracts


@pytest.mark.parametrize('name', aggregate.AGGREGATES)
def test_aggregate(name):
  contracts.check_aggregate(aggregate.AGGREGATES[name])
