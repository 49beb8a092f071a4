"""The demo: SmolLM2-135M learns to answer sums with just the number, on two cores.

    python -m experiments.run --config=experiments/configs/quickstart.py

GRPO with DAPO's higher upper clip and token mean (arXiv 2402.03300, 2503.14476)
on "What is a + b? Answer with just the number.", a and b in 1..20, the last
number of the text graded. Expect the mean reward of a batch to go from about
0.15 in the first steps to above 0.75 in the last ones.
"""

from experiments import tables
from experiments.configs import base
from rlvr import losses
from rlvr import optimizer
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  if tables.parse(arg).get('size') != 'tiny':
    c.num_steps = 27
    c.run_dir = 'runs/quickstart'
    c.eval.prompts = 16
    c.rollout.max_tokens = 16  # just the number needs three
    c.model.remat = 'dots'  # memory is plenty at this size, recomputing costs a sixth
    c.optimizer = spec.spec(optimizer.adam, learning_rate=1e-5)
  c.losses.pg.term = spec.spec(
      losses.surrogate, clip=spec.spec(losses.clips.ppo_clip, low=0.2, high=0.28))
  return tables.choose(c, arg)
