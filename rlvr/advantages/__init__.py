"""Advantages: (rollout) -> f32[B] or f32[B, T], and their transforms."""

from rlvr import spec
from rlvr.advantages import batch_whitened
from rlvr.advantages import concentration
from rlvr.advantages import covariance
from rlvr.advantages import entropy_weighted
from rlvr.advantages import first_mistake
from rlvr.advantages import fused
from rlvr.advantages import group_relative
from rlvr.advantages import group_variants
from rlvr.advantages import influence
from rlvr.advantages import length_penalty
from rlvr.advantages import median_centred
from rlvr.advantages import per_reward
from rlvr.advantages import returns
from rlvr.advantages import reused_turns
from rlvr.advantages import segments
from rlvr.advantages import shared_states
from rlvr.advantages import step_returns
from rlvr.advantages import strategies
from rlvr.advantages import trajectories
from rlvr.advantages import transforms

grpo = group_relative.grpo
dr_grpo = group_relative.dr_grpo
rloo = group_relative.rloo
reinforce = returns.reinforce
gae = returns.gae
sao = returns.sao
reinforce_pp = batch_whitened.reinforce_pp
reinforce_pp_baseline = batch_whitened.reinforce_pp_baseline
grpo_batch_std = group_variants.grpo_batch_std
opo = group_variants.opo
maxrl = group_variants.maxrl
pass_at_k_grpo = group_variants.pass_at_k_grpo
mc_grpo = median_centred.mc_grpo
per_column = per_reward.per_column
gdpo = per_reward.gdpo
factorized_reward = segments.factorized_reward
segment_mean = segments.segment_mean
arc = strategies.arc
eapo = entropy_weighted.eapo
weighted_grpo = concentration.weighted_grpo
clip_cov = covariance.clip_cov
overthinking = length_penalty.overthinking
v0_5 = fused.v0_5
cliff = first_mistake.cliff
konst_len = trajectories.konst_len
step_mean = trajectories.step_mean
rtmc = shared_states.rtmc
semi_online = step_returns.semi_online
echo_memory = reused_turns.echo_memory
iapo = influence.iapo

ADVANTAGES = spec.make_table(
    grpo, dr_grpo, rloo, reinforce, reinforce_pp, reinforce_pp_baseline, grpo_batch_std, opo,
    maxrl, pass_at_k_grpo, mc_grpo, per_column, gdpo, factorized_reward, segment_mean, arc, eapo,
    overthinking, v0_5, cliff, konst_len, step_mean, gae, sao, weighted_grpo,
    clip_cov, rtmc, semi_online, echo_memory, iapo)
TRANSFORMS = transforms.TRANSFORMS

# Baselines taken from the other members: with one response a prompt they are 0
# everywhere, which a config must refuse. A combinator's base counts as well.
GROUP_BASELINES = frozenset({
    'grpo', 'dr_grpo', 'rloo', 'reinforce_pp_baseline', 'grpo_batch_std', 'opo', 'maxrl',
    'pass_at_k_grpo', 'mc_grpo', 'overthinking', 'cliff', 'weighted_grpo', 'rtmc'})

# Advantages that read rollout.value, which only a critic fills.
FROM_CRITIC = frozenset({'gae', 'sao'})
