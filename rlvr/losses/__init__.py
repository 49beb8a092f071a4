"""Loss terms: (out, cell, knobs) -> (terms f32[n, T], metrics). None of them reduces."""

from rlvr import spec
from rlvr.losses import clips
from rlvr.losses import diagnostics
from rlvr.losses import entropy
from rlvr.losses import kl
from rlvr.losses import policy_terms
from rlvr.losses import ratios

surrogate = policy_terms.surrogate
policy_gradient = policy_terms.policy_gradient
kl_loss = kl.kl_loss
entropy_bonus = entropy.entropy_bonus
mismatch = diagnostics.mismatch
staleness = diagnostics.staleness

LOSSES = spec.make_table(surrogate, policy_gradient, kl_loss, entropy_bonus)
RATIOS = ratios.RATIOS
CLIPS = clips.CLIPS
KL_ESTIMATORS = kl.KL_ESTIMATORS

# Terms without gradient where the advantage is 0; `prepare` may leave such rows out.
ADVANTAGE_ONLY = frozenset({'surrogate', 'policy_gradient'})
