"""RoRecomp: train first on short right and long wrong responses, later, and less, on the rest.

    python -m experiments.run --config=experiments/configs/rorecomp.py:size=tiny

Source: RoRecomp (arXiv 2509.25958). Changes from GRPO: of each group's right
responses the shorter half, and of its wrong ones the longer half, are a batch of
their own; the others wait, with the advantage and log-probs of their own step,
until as many of them are held as the step trains itself, and then make one more
step with a probability that falls from 1 to 0 over the run, or are dropped. The
advantages are formed on the whole groups. A row becomes due in a later step than
its own, and a step has at most one such batch.
Expect compensation_rows above 0 from the second step on, fewer and fewer as
compensation_chance falls, and an outcome from 0.25 to 0.4 in the 60 steps of the
toy, whose answers are too short for a pressure on length to show; the counts
always balance: rows = selected + compensation + left out + expired + buffered.
Provenance: abstract only, reconstructed.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import replay
from rlvr import selection
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.selection = spec.spec(selection.rorecomp)
  c.compensation = spec.spec(replay.fifo_rows)
  c.score_first = True  # a row keeps the log-probs of its own step
  return tables.choose(c, arg)
