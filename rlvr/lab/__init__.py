"""The laboratory: whole runs in one jitted program, on tasks whose verifier is JAX."""

from rlvr import spec
from rlvr.lab import arithmetic
from rlvr.lab import brackets
from rlvr.lab import sequences

sort = sequences.sort
add = sequences.add
chain = arithmetic.chain
countdown = arithmetic.countdown
bracket = brackets.bracket

TASKS = spec.make_table(sort, add, chain, countdown, bracket)
