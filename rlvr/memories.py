"""The table of memories: what methods keep between steps (memory.py is the seam)."""

from rlvr import old_policies
from rlvr import spec
from rlvr import success_rate as success_rate_lib
from rlvr.replay import reincarnation as reincarnation_lib
from rlvr.rewards import rubric

last_policy = reincarnation_lib.last_policy
reincarnation = reincarnation_lib.reincarnation
rrt_items = rubric.rrt_items
success_rate = success_rate_lib.success_rate
ewma = old_policies.ewma
snapshots = old_policies.snapshots

MEMORIES = spec.make_table(last_policy, reincarnation, success_rate, rrt_items, ewma, snapshots)
