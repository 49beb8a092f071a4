"""Values that every part must survive: the grid that `contracts` goes over."""

from collections.abc import Mapping
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import rows as rows_lib
from rlvr import testing
from rlvr import types

Array = jax.Array


def permute(rollout: types.Rollout, order: Sequence[int]) -> types.Rollout:
  """The rollout with its rows in another order."""
  return rows_lib.take_rows(rollout, jnp.asarray(order))


def as_bfloat16(tree):
  """Every f32 leaf cast to bf16; the rest unchanged."""
  cast = lambda x: x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x
  return jax.tree.map(cast, tree)


def rollouts() -> Mapping[str, types.Rollout]:
  """The grid that every stage function must survive, by name.

  One-member, all-equal, empty and uneven groups, zero-length rows, ungraded
  rows (NaN rewards), padding rows, environment tokens inside a response. All
  have the same shapes, so one trace serves them all.
  """
  shape = dict(max_tokens=3)
  build = lambda rewards, **options: testing.make_rollout(
      rewards, padding=8 - sum(len(group) for group in rewards), **shape, **options)
  return {
      'plain': build([[1, 0, 0, 1], [0, 1, 1, 1], [], []]),
      'one member': build([[1], [0], [.5], [1]]),
      'all equal': build([[1, 1, 1], [0, 0], [.7, .7, .7], []]),
      'empty groups': build([[], [1, 0], [], [1]]),
      'uneven': build([[1, 0, 1, 0], [5], [2, 3, 2], []]),
      'zero length': build([[1, 0, 1], [0, 1], [1], [0]], lengths=[0, 3, 1, 0, 0, 2, 0]),
      'ungraded': build([[1, None, None, 0], [None, 1], [None], [0]]),
      'none graded': build([[None, None], [None], [], []]),
      'nothing': build([[], [], [], []]),
      'environment': build(
          [[1, 0], [0, 1], [], []], masks=[[1, 0, 1], [0, 0], [1, 1, 0], [0, 1, 1]],
          stops=[types.BUDGET, types.STOP_TOKEN, types.BUDGET, types.ABORT]),
  }


def cell() -> tuple[types.PolicyOutput, types.Batch]:
  """Four rows: full, partly masked, empty, and one at the edge of what is finite.

  Everything off the mask is NaN or infinite. Row 3 has log-ratios of 100 nats
  and -inf on the mask.
  """
  nan, inf = np.nan, np.inf
  mask = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]], np.float32)
  rng = np.random.default_rng(0)
  noise = lambda: np.where(mask != 0, -rng.uniform(.1, 2, mask.shape), nan).astype(np.float32)
  logp, old, ref, rolled = noise(), noise(), noise(), noise()
  logp[3], old[3], ref[3], rolled[3] = (
      [-1, -101, -inf], [-101, -1, -inf], [-121, -2, -1], [-inf, -3, -2])
  old[1, 1], ref[2, 0], rolled[2, 1] = inf, -inf, inf
  out = testing.make_output(logp, entropy=-noise())
  advantages = np.where(mask != 0, [[1.], [-.5], [nan], [2]], nan)
  cell = testing.make_cell(
      advantages, mask=mask, old_logp=old, ref_logp=ref, rollout_logp=rolled,
      correction=np.where(mask != 0, .5, nan))
  return out, cell
