"""Numbers and combinations of a config that cannot work, each with its sentence."""

import math

import jax
import ml_collections
from absl import logging

from experiments import steps
from experiments import stores
from experiments import tables
from rlvr import advantages
from rlvr import old_policies
from rlvr.host import run_dir


def check(c: ml_collections.ConfigDict) -> None:
  """Numbers and combinations that cannot work. Raises: ValueError, one sentence each."""
  r = c.rollout
  _numbers(c)
  for path, value, least in (
      ('num_steps', c.num_steps, 0), ('rollout.prompts', r.prompts, 1),
      ('rollout.responses', r.responses, 1), ('rollout.max_tokens', r.max_tokens, 1),
      ('rollout.slots', r.slots, 1), ('rollout.slots_per_prompt', r.slots_per_prompt, 1),
      ('rollout.max_rounds', r.max_rounds, 1), ('rollout.extra_rows', r.extra_rows, 0),
      ('rollout.num_draws', r.num_draws, 0), ('rollout.max_turns', r.max_turns, 1),
      ('batch.epochs', c.batch.epochs, 1),
      ('batch.minibatches', c.batch.minibatches, 1),
      ('verify.num_workers', c.verify.num_workers, 1),
      ('model.warm_start_steps', c.model.warm_start_steps, 0),
      ('model.head_chunk', c.model.head_chunk, 1), ('eval.prompts', c.eval.prompts, 0),
      ('eval.every', c.eval.every, 0), ('checkpoint.every', c.checkpoint.every, 0),
      ('checkpoint.keep', c.checkpoint.keep, 1), ('rollout.top_k', r.top_k, 0),
      ('log.rollouts_every', c.log.rollouts_every, 0), ('parallel.fsdp', c.parallel.fsdp, 1)):
    if value < least:
      raise ValueError(f'config.{path} is {value}; it must be at least {least}.')
  for path, values in (('rollout.prompt_buckets', r.prompt_buckets),
                       ('eval.pass_at', c.eval.pass_at)):
    if not all(isinstance(value, int) and value > 0 for value in values):
      raise ValueError(f'config.{path} is {values}; it must be whole numbers above 0.')
  buckets = list(r.prompt_buckets)
  if not buckets or buckets != sorted(set(buckets)):
    raise ValueError(
        f'config.rollout.prompt_buckets is {r.prompt_buckets}; it must be ascending widths.')
  if not r.temperature > 0:
    raise ValueError(
        f'config.rollout.temperature is {r.temperature}; training needs it above 0 (evaluation '
        'is greedy by itself).')
  if r.slots % r.slots_per_prompt:
    raise ValueError(
        f'config.rollout.slots is {r.slots}; it must be a multiple of slots_per_prompt '
        f'{r.slots_per_prompt}.')
  if c.batch.cell_rows < r.responses:
    raise ValueError(
        f'config.batch.cell_rows is {c.batch.cell_rows}; a cell must hold a whole group, '
        f'{r.responses} responses.')
  if r.responses < 2 and tables.part_names(c.advantage) & advantages.GROUP_BASELINES:
    raise ValueError(
        f'config.rollout.responses is {r.responses}, but the baseline of advantage '
        f'{c.advantage.name!r} is the other responses of the group; it needs at least 2 '
        '(advantage=reinforce_pp works with one).')
  if 'kl_in_reward' in tables.part_names(c.reward) and not c.score_first:
    raise ValueError(
        'config.reward has kl_in_reward, which reads log-probabilities, and config.score_first is '
        'False; set --config.score_first=True.')
  stores.check(c)
  if r.extra_rows:
    _extra_rows(c)
  steps.check(c)
  for name, cfg in c.losses.items():
    if tables.part_names(cfg.term) >= {'kl_loss', 'k1'}:
      logging.warning(
          'config.losses.%s: k1 as a loss has a gradient of mean 0, so it holds the policy '
          'nowhere; k2 or unbiased has that of the KL.', name)
  if not c.losses:
    raise ValueError('config.losses is empty; a run needs at least one loss term.')
  if c.eval.prompts and r.responses > 1 and max(c.eval.pass_at, default=1) > r.responses - 1:
    raise ValueError(
        f'config.eval.pass_at is {c.eval.pass_at}; one of the {r.responses} responses is greedy, '
        f'so k is at most {r.responses - 1}.')
  for path, value, known in (
      ('score_old', c.score_old, tuple(old_policies.OLD_POLICIES)),
      ('parallel.kind', c.parallel.kind, ('pmap', 'mesh')),
      ('model.compute_dtype', c.model.compute_dtype, ('float32', 'bfloat16'))):
    if value not in known:
      raise ValueError(f'config.{path} is {value!r}; expected one of {", ".join(known)}.')
  num_devices = len(jax.devices())
  if r.prompts % num_devices:
    raise ValueError(
        f'config.rollout.prompts is {r.prompts}; the {num_devices} devices each take an equal '
        'share, so it must be a multiple.')
  if c.parallel.fsdp > 1 and (c.parallel.kind != 'mesh' or num_devices % c.parallel.fsdp):
    raise ValueError(
        f'config.parallel.fsdp is {c.parallel.fsdp}; it needs parallel.kind mesh and must divide '
        f'the {num_devices} devices.')


def _numbers(c):
  """Numbers that are none, and those with a range of their own."""
  for field, value in run_dir.flat_config(c.to_dict()).items():
    if isinstance(value, float) and not math.isfinite(value):
      raise ValueError(f'config.{field} is {value}; it must be a finite number.')
  if not c.run_dir.strip():
    raise ValueError('config.run_dir is empty; name the folder of the run.')
  if not c.verify.deadline_seconds > 0:
    raise ValueError(
        f'config.verify.deadline_seconds is {c.verify.deadline_seconds}; it must be above 0.')
  for path, value, fits, right in (
      ('seed', c.seed, 0 <= c.seed < 2**31, 'at least 0 and below 2**31'),
      ('rollout.top_p', c.rollout.top_p, 0 < c.rollout.top_p <= 1, 'above 0 and at most 1'),
      ('rollout.min_p', c.rollout.min_p, 0 <= c.rollout.min_p < 1, 'at least 0 and below 1')):
    if not fits:
      raise ValueError(f'config.{path} is {value}; it must be {right}.')


def _extra_rows(c):
  r, part = c.rollout, c.allocator
  if part.name == 'no_extra' or r.max_rounds > 1:
    raise ValueError(
        f'config.rollout.extra_rows is {r.extra_rows}, but config.allocator is {part.name!r} and '
        f'rollout.max_rounds {r.max_rounds}; it needs an allocator that buys, and one round.')
  if part.add > r.responses:
    raise ValueError(
        f'config.allocator.add is {part.add}; a round samples at most rollout.responses '
        f'{r.responses} of a prompt.')
  if not r.responses <= part.most <= c.batch.cell_rows // r.responses * r.responses:
    raise ValueError(
        f'config.allocator.most is {part.most}; it must be at least rollout.responses '
        f'{r.responses} and fit into the whole groups of batch.cell_rows {c.batch.cell_rows}.')
