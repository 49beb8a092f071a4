"""PPO with a critic: GAE over tokens, the clipped ratio, two passes over a batch.

    python -m experiments.run --config=experiments/configs/ppo.py:size=tiny

Source: PPO (arXiv 1707.06347) with GAE (arXiv 1506.02438). The critic is a value
head on the policy's hidden state with an optimiser of its own; a transformer of
its own is ":critic.value=value_model". No KL. Expect on the toy an outcome from 0.29
to 0.44 in its 60 steps, and a value that follows it.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import losses
from rlvr import spec
from rlvr.advantages import transforms
from rlvr.policy import critic


def get_config(arg=None):
  c = base.defaults(arg)
  c.advantage = spec.spec(advantages.gae, trace=0.95)
  c.transform = spec.spec(transforms.whiten_batch)
  c.critic.value = spec.spec(critic.value_head)
  c.losses.value = tables.term(spec.spec(losses.value_loss, trace=0.95, clip=0.2))
  c.score_first = True  # gae reads values
  c.batch.epochs = 2
  return tables.choose(c, arg)
