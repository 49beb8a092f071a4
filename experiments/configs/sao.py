"""SAO: one rollout a prompt, a value model, tokens rejected on both sides.

    python -m experiments.run --config=experiments/configs/sao.py:size=tiny

Source: SAO (arXiv 2607.07508), two re-implementations read, no official code. No
group: the advantage is GAE whose lambda grows with the response, and the weight is
the ratio to the sampler itself, 0 outside (0.7, 6). The critic, with its attention
frozen, is updated twice for each policy update and alone for the first 10 steps;
the paper also trains it beforehand, and has 128 prompts a batch. Expect the
policy to stay as it is for 10 steps, then on the toy an outcome that rises from 0.33
to 0.5 by step 60.
"""

from experiments import tables
from experiments.configs import base
from rlvr import advantages
from rlvr import losses
from rlvr import spec
from rlvr.policy import critic


def get_config(arg=None):
  c = base.defaults(arg)
  c.rollout.prompts = 64
  c.rollout.responses = 1
  c.rollout.slots_per_prompt = 1
  c.advantage = spec.spec(advantages.sao)
  c.losses.pg = tables.term(
      spec.spec(losses.score_function, weight=spec.spec(losses.WEIGHTS['dis'])))
  c.losses.value = tables.term(spec.spec(losses.value_loss))
  c.critic.value = spec.spec(critic.value_model, frozen=('qkv', 'o'))
  c.critic.updates = 2
  c.critic.warmup_steps = 10
  c.score_first = True  # the advantage reads values
  return tables.choose(c, arg)
