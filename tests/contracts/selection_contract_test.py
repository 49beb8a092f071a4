"""Every entry of SELECTION and MASKS passes its stage's contract."""

import functools

import pytest

from rlvr import contracts
from rlvr import masks
from rlvr import selection

# Ties among equal rewards, or equal lengths, are broken by row order.
BY_ROW_ORDER = frozenset({'drop_pivot', 'rorecomp'})


def with_extras(part):
  """part, on rollouts that hold the extras that parts read."""
  def on(rollout, *args):
    extras = {
        'step_index': rollout.tokens[:, 0] % 2,
        'match': rollout.tokens[:, 0] % 3,
        'token_kind': rollout.tokens % 5,
        'chosen': rollout.tokens[:, :, None] % 3 - 1,
        'boundaries': rollout.tokens[:, 0] % 3,
    }
    return part(rollout.replace(extras=rollout.extras | extras), *args)
  return on


@pytest.mark.parametrize('name', selection.SELECTION)
def test_selection(name):
  part = with_extras(selection.SELECTION[name])
  contracts.check_selection(part, permutes=name not in BY_ROW_ORDER)


# What a mask has no default for.
MASK_OPTIONS = {'answer_anchor': {'marker': (5,)}}


@pytest.mark.parametrize('name', masks.MASKS)
def test_mask(name):
  part = functools.partial(masks.MASKS[name], **MASK_OPTIONS.get(name, {}))
  contracts.check_mask(with_extras(part))
