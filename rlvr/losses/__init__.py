"""Loss terms: (out, cell, knobs) -> (terms f32[n, T], metrics). None of them reduces."""

from rlvr import spec
from rlvr.losses import alignment
from rlvr.losses import clips
from rlvr.losses import diagnostics
from rlvr.losses import entropy
from rlvr.losses import kl
from rlvr.losses import kl_convex as kl_convex_lib
from rlvr.losses import policy_terms
from rlvr.losses import ratios
from rlvr.losses import value

surrogate = policy_terms.surrogate
policy_gradient = policy_terms.policy_gradient
kl_loss = kl.kl_loss
kl_convex = kl_convex_lib.kl_convex
entropy_bonus = entropy.entropy_bonus
hidden_align = alignment.hidden_align
value_loss = value.value_loss
mismatch = diagnostics.mismatch
staleness = diagnostics.staleness

LOSSES = spec.make_table(
    surrogate, policy_gradient, kl_loss, entropy_bonus, hidden_align, value_loss,
    kl_convex)
RATIOS = ratios.RATIOS
CLIPS = clips.CLIPS
KL_ESTIMATORS = kl.KL_ESTIMATORS

# Terms without gradient where the advantage is 0; `prepare` may leave such rows out.
ADVANTAGE_ONLY = frozenset({'surrogate', 'policy_gradient'})

# Terms whose gradient is the critic's: taken by its own optimiser, apart from the policy's.
CRITIC_TERMS = frozenset({'value_loss'})
