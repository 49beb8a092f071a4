"""Loss terms: (out, cell, knobs) -> (terms f32[n, T], metrics). None of them reduces."""

from rlvr import spec
from rlvr.losses import alignment
from rlvr.losses import clips
from rlvr.losses import contrast
from rlvr.losses import diagnostics
from rlvr.losses import entropy
from rlvr.losses import environment
from rlvr.losses import kl
from rlvr.losses import policy_terms
from rlvr.losses import probability_weights
from rlvr.losses import ratios
from rlvr.losses import sampler_anchor
from rlvr.losses import two_anchors
from rlvr.losses import value
from rlvr.losses import weights

surrogate = policy_terms.surrogate
policy_gradient = policy_terms.policy_gradient
score_function = policy_terms.score_function
mix_ppg = policy_terms.mix_ppg
conspo = contrast.conspo
klpo = sampler_anchor.klpo
kl_loss = kl.kl_loss
kl_convex = two_anchors.kl_convex
entropy_bonus = entropy.entropy_bonus
echo_env = environment.echo_env
hidden_align = alignment.hidden_align
value_loss = value.value_loss
mismatch = diagnostics.mismatch
staleness = diagnostics.staleness

LOSSES = spec.make_table(
    surrogate, policy_gradient, kl_loss, entropy_bonus, hidden_align, value_loss,
    kl_convex, score_function, mix_ppg, conspo, klpo, echo_env)
RATIOS = ratios.RATIOS
CLIPS = clips.CLIPS
WEIGHTS = spec.make_table(
    weights.cispo, weights.dis, weights.pnpo, weights.topr, probability_weights.dppo_tv,
    probability_weights.dppo_kl, probability_weights.reco_scale)
KL_ESTIMATORS = kl.KL_ESTIMATORS

# Terms without gradient where the advantage is 0; `prepare` may leave such rows out.
ADVANTAGE_ONLY = frozenset({'surrogate', 'policy_gradient', 'score_function', 'mix_ppg'})

# Terms whose gradient is the critic's: taken by its own optimiser, apart from the policy's.
CRITIC_TERMS = frozenset({'value_loss'})

# Masks of terms that are not about all of the policy's tokens, by name.
OWN_MASKS = {
    'value_loss': 'graded_tokens', 'echo_env': 'observed_tokens', 'conspo': 'two_sided_tokens',
    'klpo': 'graded_tokens', 'hidden_align': 'answer_anchor'}
