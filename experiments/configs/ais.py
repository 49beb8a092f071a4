"""AIS: the strength of the sampler-to-trainer weight, chosen per batch.

    python -m experiments.run --config=experiments/configs/ais.py:size=tiny

Source: AIS (arXiv 2605.13907), from its abstract, reconstructed. GRPO with the
correction `ais`; truncated importance sampling is ":correction=token_truncated"
or ":correction.mixing=fixed_mixing". Expect ais_alpha at 0 and a run like
grpo.py where sampler and trainer share their numerics, as on the toy; with
--config.model.compute_dtype=bfloat16 it is above 0.
"""

from experiments import tables
from experiments.configs import base
from rlvr import aggregate
from rlvr import corrections
from rlvr import spec


def get_config(arg=None):
  c = base.defaults(arg)
  c.aggregate = spec.spec(aggregate.seq_mean_token_mean)
  c.correction = spec.spec(corrections.ais)
  return tables.choose(c, arg)
