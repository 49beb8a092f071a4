"""Allocators: who gets more rollouts, (rollout so far, left) -> i32[P] rows to add."""

from rlvr import spec
from rlvr.allocators import look_ahead

no_extra = look_ahead.no_extra
osla = look_ahead.osla

ALLOCATORS = spec.make_table(no_extra, osla)
