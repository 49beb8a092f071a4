"""The signature of each stage; options are keyword-only, bound by spec.resolve."""

from collections.abc import Callable

import jax

from rlvr import types

Array = jax.Array

Reward = Callable[[types.Rollout], Array]  # f32[B]
Advantage = Callable[[types.Rollout], Array]  # f32[B] or f32[B, T]
Transform = Callable[[Array, types.Rollout], Array]  # same shape as its first argument
Selection = Callable[[types.Rollout, Array], Array]  # f32[B] >= 0; exactly 0 filters
Correction = Callable[[Array, Array, Array], Array]  # old_logp, rollout_logp, mask
Aggregate = Callable[..., Array]  # mask f32[B,T], row_weight f32[B], where, group
Loss = Callable[  # out, cell, knobs -> terms f32[n, T], metrics
    [types.PolicyOutput, types.Batch, dict[str, Array]], tuple[Array, dict[str, Array]]]
Allocator = Callable[[types.Rollout, Array | int], Array]  # graded rows, left -> i32[P] to add
