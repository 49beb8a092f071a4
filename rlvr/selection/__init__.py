"""Selection: (rollout, advantages) -> f32[B], row weights at least 0."""

from rlvr.selection import filters

keep_all = filters.keep_all
graded_rows = filters.graded_rows
mixed_groups = filters.mixed_groups
overlong_filter = filters.overlong_filter

SELECTION = filters.SELECTION
