"""The rollout phase on the host: tasks -> prompts -> sample -> verify -> rewards.

The crossings between host and device, in order: device_put(prompts), sample,
device_get(tokens, lengths), verify, device_put(rewards).
"""

import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import types
from rlvr.host import offsets as offsets_lib
from rlvr.host import verify_pool
from rlvr.verifiers import verdict as verdict_lib


class Sampled(NamedTuple):
  """One rollout phase: the rollout, and for each of its rows the text side.

  Attributes:
    rollout: with reward columns, `graded` and the places of the verdicts'
      offsets in extras; unused rows have where False.
    tasks: the task of each row, None for an unused one.
    texts: the completion of each row, special tokens left out.
    verdicts: one a row, None for an unused one.
    metrics: counts, shares and seconds of the phase.
  """

  rollout: types.Rollout
  tasks: list[Mapping[str, Any] | None]
  texts: list[str]
  verdicts: list[verdict_lib.Verdict | None]
  metrics: dict[str, float]


def encode_prompts(
    tokenizer: Any, tasks: Sequence[Mapping[str, Any]], buckets: Sequence[int]
) -> types.Prompts:
  """Tasks as right-padded prompts of the smallest bucket that holds the longest.

  Raises:
    ValueError: a prompt longer than the largest bucket; names the task.
  """
  ids = [tokenizer.encode_chat(task['messages']) for task in tasks]
  for task, tokens in zip(tasks, ids, strict=True):
    if len(tokens) > buckets[-1]:
      raise ValueError(
          f'The prompt of task {task["id"]} has {len(tokens)} tokens, more than the largest '
          f'bucket {buckets[-1]} of config.rollout.prompt_buckets.')
    if not tokens:
      raise ValueError(f'The prompt of task {task["id"]} is empty; a prompt needs a token.')
  width = next(b for b in buckets if b >= max(map(len, ids)))
  tokens = np.zeros((len(ids), width), np.int32)
  for row, sequence in enumerate(ids):
    tokens[row, :len(sequence)] = sequence
  return types.Prompts(
      tokens=jnp.asarray(tokens), length=jnp.asarray([len(s) for s in ids], jnp.int32),
      id=jnp.asarray([task['id'] for task in tasks], jnp.int32))


def completions(tokenizer: Any, tokens: np.ndarray, valid: np.ndarray) -> list[str]:
  """The text of each row; ids come from the mask by position, not from pad values."""
  return [tokenizer.decode([int(i) for i in row[keep]])
          for row, keep in zip(tokens, valid, strict=True)]


def sample_and_grade(
    tasks: Sequence[Mapping[str, Any]],
    *,
    sample: Callable[[types.Prompts], tuple[types.Rollout, Any]],
    tokenizer: Any,
    pool: verify_pool.VerifyPool,
    buckets: Sequence[int],
    columns: Sequence[str] = (),
    offsets: Sequence[str] = (),
) -> Sampled:
  """One round: every task sampled as often as `sample` does, every row graded.

  Args:
    tasks: one a prompt.
    sample: (prompts) -> (Rollout, Stats).
    tokenizer: encodes the messages and decodes the responses.
    pool: grades.
    buckets: prompt widths, ascending.
    columns: names of the verdicts' parts to keep; see `column_names`.
    offsets: names of the verdicts' offsets to keep; see `offset_names`.
  """
  started = time.monotonic()
  rollout, stats = sample(encode_prompts(tokenizer, tasks, buckets))
  tokens, valid, prompt, where, stats = jax.device_get(
      (rollout.tokens, rollout.valid, rollout.prompt, rollout.where, stats))
  sampled = time.monotonic()
  texts = completions(tokenizer, tokens, valid)
  used = np.flatnonzero(where)
  graded = pool.grade([tasks[prompt[row]] for row in used], [texts[row] for row in used])
  verdicts: list[verdict_lib.Verdict | None] = [None] * len(texts)
  for row, one in zip(used, graded, strict=True):
    verdicts[row] = one
  seconds = time.monotonic() - sampled
  num_tokens = int(valid.sum())
  metrics = {
      'seconds/sample': sampled - started, 'seconds/verify': seconds,
      'sampled_tokens': float(num_tokens), 'sampled_rows': float(len(used)),
      'iterations': float(np.max(stats.iterations)),
      # Slot-iterations that served no row: what a long tail costs.
      'idle_slot_share': 1.0 - float(np.sum(stats.active)) / max(float(np.sum(stats.slots)), 1.0),
      **verdict_lib.shares(graded),
  }
  places = offsets_lib.token_places(tokenizer, tokens, valid, texts, verdicts, offsets)
  rollout = with_rewards(rollout, verdicts, columns)
  return Sampled(rollout.replace(extras=rollout.extras | places), [
      tasks[p] if w else None for p, w in zip(prompt, where, strict=True)
  ], texts, verdicts, metrics)


def column_names(pool: verify_pool.VerifyPool, task: Mapping[str, Any]) -> tuple[str, ...]:
  """The parts of a reward that the verifier names ('format', 'passed'), sorted.

  They are the columns after the outcome, fixed for the run because shapes are.
  The verifier is asked once, with the reference, a wrong and an empty answer to
  one task, so a continued run finds the same; a name that shows up only on
  other texts is not kept.
  """
  return _names(verdict.columns for verdict in _examples(pool, task))


def offset_names(pool: verify_pool.VerifyPool, task: Mapping[str, Any]) -> tuple[str, ...]:
  """The places in a text that the verifier names ('first_error'), as `column_names`."""
  return _names(verdict.offsets for verdict in _examples(pool, task))


def _examples(pool, task):
  texts = (str(task.get('answer', '')), 'x', '')
  return pool.grade([task] * len(texts), texts)


def _names(mappings):
  return tuple(sorted({name for mapping in mappings for name in mapping}))


def with_rewards(
    rollout: types.Rollout, verdicts: Sequence[Any], columns: Sequence[str] = ()
) -> types.Rollout:
  """Puts verdicts into `columns` and `graded`.

  Args:
    rollout: B rows.
    verdicts: one a row, None for an unused row.
    columns: S names; a verdict that lacks one has column_where False there.

  Returns:
    The rollout with columns f32[B, 1 + S], the outcome first, 0 where they do
    not apply; an ungraded row has none.
  """
  graded = np.array([v is not None and v.graded for v in verdicts], bool)
  values = np.zeros((len(verdicts), 1 + len(columns)), np.float32)
  where = np.zeros(values.shape, bool)
  for row in np.flatnonzero(graded):
    values[row, 0], where[row, 0] = verdicts[row].reward, True
    for index, name in enumerate(columns, start=1):
      if name in verdicts[row].columns:
        values[row, index], where[row, index] = verdicts[row].columns[name], True
  return rollout.replace(columns=jnp.asarray(values), column_where=jnp.asarray(where),
                         graded=jnp.asarray(graded))


def split_metrics(
    sampled: Sampled, columns: Sequence[str], reward: np.ndarray
) -> dict[str, float]:
  """Means that need the names and tasks of the host.

  Args:
    sampled: a graded batch.
    columns: as `with_rewards` got them.
    reward: f32[B], the shaped reward.

  Returns:
    'column/<name>' of the rows it applies to, and 'reward/level_<n>' of the
    graded rows whose task has that 'level'; what no row has is left out.
  """
  values, where, graded = jax.device_get(
      (sampled.rollout.columns, sampled.rollout.column_where, sampled.rollout.graded))
  metrics = {f'column/{name}': float(values[where[:, i], i].mean())
             for i, name in enumerate(columns, start=1) if where[:, i].any()}
  levels: dict[Any, list[float]] = {}
  for row in np.flatnonzero(graded):
    if 'level' in sampled.tasks[row]:
      levels.setdefault(sampled.tasks[row]['level'], []).append(float(reward[row]))
  return metrics | {f'reward/level_{level}': sum(rewards) / len(rewards)
                    for level, rewards in sorted(levels.items(), key=lambda x: str(x[0]))}


def text_rows(sampled: Sampled, tokenizer: Any, advantages: np.ndarray) -> list[dict[str, Any]]:
  """What a run keeps of a step's rollouts as text (run_dir.write_rollouts)."""
  r = jax.device_get(sampled.rollout)
  names = {types.RUNNING: 'running', types.STOP_TOKEN: 'stop', types.BUDGET: 'budget',
           types.ABORT: 'abort'}
  prompts = [tokenizer.decode([int(i) for i in row[:n]], skip_special=False)
             for row, n in zip(r.prompts.tokens, r.prompts.length, strict=True)]
  return [{
      'prompt': prompts[r.prompt[row]], 'completion': sampled.texts[row],
      'answer': sampled.verdicts[row].answer, 'gold': str(sampled.tasks[row].get('answer', '')),
      'reward': sampled.verdicts[row].reward, 'status': sampled.verdicts[row].status,
      'advantage': float(advantages[row]), 'length': int(r.valid[row].sum()),
      'stop': names[int(r.stop[row])], 'group': int(r.group[row]),
      'id': int(r.prompts.id[r.prompt[row]]),
  } for row in np.flatnonzero(r.where)]
