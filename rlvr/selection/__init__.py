"""Selection: (rollout, advantages) -> f32[B], row weights at least 0."""

from rlvr import spec
from rlvr.selection import filters
from rlvr.selection import first_returns
from rlvr.selection import priority

keep_all = filters.keep_all
graded_rows = filters.graded_rows
mixed_groups = filters.mixed_groups
overlong_filter = filters.overlong_filter
live_groups = filters.live_groups
drop_pivot = filters.drop_pivot
rorecomp = priority.rorecomp
varied_returns = first_returns.varied_returns

SELECTION = spec.make_table(*filters.FILTERS, rorecomp, varied_returns)
