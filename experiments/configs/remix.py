"""ReMix: replay recent groups for the first 50 steps, then turn on-policy on a new base.

    python -m experiments.run --config=experiments/configs/remix.py:size=tiny

Source: Squeeze the Soaked Sponge (arXiv 2507.06892). Changes from GRPO: 40 % of a
batch's groups are drawn from those of the last two steps, with the advantage
formed when they were generated and a clip band centred where the policy stands at
the start of the step; two passes over each batch; a small KL to the base, half
of it moving to the policy of the step before from step 50 on. After 50 steps the
policy becomes the base, the store is emptied and what follows is plain GRPO.
Expect on the toy rows 64, then 40 with 24 replayed ones of age 1 to 2, and from step
51 on 64, none replayed, one pass and ref_kl 0; and an outcome from 0.2 to 0.35 in 60
steps with 2,664 responses, where GRPO takes 3,840.
Provenance: a detailed third-party note read; reconstructed are the KL estimator,
its coefficient, the split of the batch and what becomes of group advantages.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import losses
from rlvr import memories
from rlvr import replay
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.token_mean)
  c.losses.pg.term = spec.spec(losses.mix_ppg)
  c.losses.kl = tables.term(spec.spec(losses.kl_convex), coef=1e-3)
  c.memory.last_policy = spec.spec(memories.last_policy)
  c.memory.reincarnation = spec.spec(memories.reincarnation, at=50)
  c.replay = spec.spec(replay.recent_groups, max_age=2)
  c.batch.replay_share = 0.4
  c.batch.epochs = 2  # passes before the turn
  c.score_first = True  # a group keeps the log-probs of its own step
  return tables.choose(c, arg)
