"""Weights for the gap between the trainer that learns and the sampler that wrote.

Each is (old_logp, rollout_logp, mask), f32[n, T] all, -> f32[n, T]: 1 where the
two agree and off the mask, finite whatever they hold, without gradient. A loss
term multiplies its tokens by it; divisors do not move. The rows are those of
the whole batch, so a correction may use its statistics.
"""

from rlvr import spec
from rlvr.corrections import adaptive
from rlvr.corrections import discrepancy
from rlvr.corrections import masked
from rlvr.corrections import truncated

none = truncated.none
token_truncated = truncated.token_truncated
sequence_truncated = truncated.sequence_truncated
geometric_truncated = truncated.geometric_truncated
token_masked = masked.token_masked
sequence_masked = masked.sequence_masked
geometric_masked = masked.geometric_masked
kl_rejection = masked.kl_rejection
ais = adaptive.ais
decoupled = discrepancy.decoupled
discrepancy_filter = discrepancy.discrepancy_filter

CORRECTIONS = spec.make_table(
    none, token_truncated, sequence_truncated, geometric_truncated, token_masked,
    sequence_masked, geometric_masked, kl_rejection, ais, decoupled, discrepancy_filter)
MIXINGS = adaptive.MIXINGS

# What a correction logs about its batch, by its name: the same arguments and options.
READINGS = {'ais': adaptive.readings}
