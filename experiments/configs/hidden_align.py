"""Hidden-Align: the states of a prompt's right answers are aligned before they answer.

    python -m experiments.run --config=experiments/configs/hidden_align.py:size=tiny

Source: Right Makes Might (arXiv 2606.03234). Changes from GRPO: the task is a sum
of three numbers, answered by a step and the answer ('2+3+4=' by '5+4=9'), and a
term of coefficient 0.1 raises the cosine of the last hidden states of a prompt's
right responses at the token before their last equals sign.
Expect on the toy an anchor_cosine from 0.98 in the first ten of its 100 steps to 0.99
in the last ten, and an outcome from 0.6 to 0.8.
Provenance: abstract only, reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import envs
from rlvr import losses
from rlvr import masks
from rlvr import spec
from rlvr.host import tokenizer


def get_config(arg=None):
  c = base.defaults(arg)
  tiny = tables.parse(arg).get('size') == 'tiny'
  c.env = spec.spec(envs.sum_chain_tiny if tiny else envs.sum_chain)
  marker = (45,)  # '=' in SmolLM2's vocabulary
  if tiny:
    c.rollout.max_tokens = 8  # '10+5=15' and a stop token
    c.num_steps = 100
    c.rollout.prompts = 16
    c.model.warm_start_steps = 100
    marker = (tokenizer.ByteTokenizer.OFFSET + ord('='),)
  c.losses.align = tables.term(
      spec.spec(losses.hidden_align), coef=0.1,
      aggregate=spec.spec(aggregate.prompt_mean_token_mean))
  c.losses.align.mask = spec.spec(masks.answer_anchor, marker=marker)
  return tables.choose(c, arg)
