"""All tables by stage name, and part names given in a config's argument."""

import ml_collections

from rlvr import advantages
from rlvr import aggregate
from rlvr import allocators
from rlvr import corrections
from rlvr import envs
from rlvr import losses
from rlvr import masks
from rlvr import memories
from rlvr import optimizer
from rlvr import replay
from rlvr import rewards
from rlvr import selection
from rlvr import spec
from rlvr import verifiers
from rlvr.advantages import transforms
from rlvr.policy import critic
from rlvr.train import slow_fast

TABLES = {
    'advantage': advantages.ADVANTAGES,
    'aggregate': aggregate.AGGREGATES,
    'allocator': allocators.ALLOCATORS,
    'clip': losses.CLIPS,
    'correction': corrections.CORRECTIONS,
    'env': envs.ENVS,
    'estimator': losses.KL_ESTIMATORS,
    'judge': verifiers.JUDGES,
    'loss': losses.LOSSES,
    'mask': masks.MASKS,
    'memory': memories.MEMORIES,
    'mixing': corrections.MIXINGS,
    'optimizer': optimizer.OPTIMIZERS,
    'ratio': losses.RATIOS,
    'replay': replay.REPLAY,
    'reward': rewards.REWARDS,
    'selection': selection.SELECTION,
    'stepping': slow_fast.UPDATES,
    'transform': transforms.TRANSFORMS,
    'value': critic.CRITICS,
    'verifier': verifiers.VERIFIERS,
    'weight': losses.WEIGHTS,
}

def term(part, *, coef: float = 1.0, mask=None, aggregate=None):
  """One entry of config.losses: the part, its coefficient, tokens and average.

  mask: a part of MASKS, or None for the tokens that the term is about.
  aggregate: a spec, or None to share config.aggregate, whatever is chosen there.
  """
  mask = mask or masks.MASKS[losses.OWN_MASKS.get(part[spec.NAME], 'policy_tokens')]
  config = ml_collections.ConfigDict({'term': part, 'coef': coef, 'mask': spec.spec(mask)})
  if aggregate is not None:
    config.aggregate = aggregate
  return config


def parse(arg: str | None) -> dict[str, str]:
  """'advantage=rloo,size=tiny' -> {'advantage': 'rloo', 'size': 'tiny'}.

  Raises:
    ValueError: a piece that is no NAME=VALUE, or a name given twice.
  """
  result: dict[str, str] = {}
  for piece in (arg or '').split(','):
    if not piece.strip():
      continue
    name, equals, value = (part.strip() for part in piece.partition('='))
    if not equals or not name or not value:
      raise ValueError(
          f'Config argument {piece!r} is no NAME=VALUE; write for example '
          '"grpo.py:advantage=rloo,size=tiny".')
    if name in result:
      raise ValueError(f'Config argument {name!r} is given twice.')
    result[name] = value
  return result


def choose(config: ml_collections.ConfigDict, arg: str | None) -> ml_collections.ConfigDict:
  """Replaces parts by name: 'advantage=rloo,losses.pg.term.clip=no_clip'.

  'losses.NAME=PART' adds a loss term, 'memory.NAME=PART' a memory, or replaces one. The new
  part comes with its own defaults; numbers are then changed by flags.

  Raises:
    ValueError: a slot that the config does not have, or an unknown part.
  """
  for slot, name in parse(arg).items():
    path = f'config.{slot}'
    *outer, last = slot.split('.')
    if slot == 'size':
      continue
    if outer == ['memory']:
      config.memory[last] = spec.spec(spec.lookup(memories.MEMORIES, name, path))
      continue
    if outer == ['losses']:
      config.losses[last] = term(spec.spec(spec.lookup(losses.LOSSES, name, path)))
      continue
    section = config
    for key in outer:
      section = _section(section, key, path)
    stage = _stage(last, _section(section, last, path), path)
    section[last] = spec.spec(spec.lookup(TABLES[stage], name, path))
  return config


def part_names(config: ml_collections.ConfigDict) -> set[str]:
  """The names of a part and of all parts inside it."""
  names = {config[spec.NAME]} if spec.NAME in config else set()
  for value in config.values():
    if isinstance(value, ml_collections.ConfigDict):
      names |= part_names(value)
  return names


def _section(section, key, path):
  parts = [k for k in section if isinstance(section[k], ml_collections.ConfigDict)]
  if key not in parts:
    raise ValueError(f'{path}: there is no part {key!r} here.{spec.did_you_mean(key, parts)}')
  return section[key]


def _stage(slot, old, path):
  """The table that a slot draws from: by its own name, or by the part that is in it."""
  if slot == 'term':
    return 'loss'
  if slot in TABLES:
    return slot
  for stage, table in TABLES.items():
    if old.get(spec.NAME) in table:
      return stage
  raise ValueError(f'{path} is a section of options, not a part; change its options by flag.')
