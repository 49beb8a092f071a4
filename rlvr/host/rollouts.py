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
from rlvr.host import verify_pool
from rlvr.verifiers import verdict as verdict_lib


class Sampled(NamedTuple):
  """One rollout phase: the rollout, and for each of its rows the text side.

  Attributes:
    rollout: with reward columns and `graded`; unused rows have where False.
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
) -> Sampled:
  """One round: every task sampled as often as `sample` does, every row graded."""
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
  return Sampled(with_rewards(rollout, verdicts), [
      tasks[p] if w else None for p, w in zip(prompt, where, strict=True)
  ], texts, verdicts, metrics)


def with_rewards(rollout: types.Rollout, verdicts: Sequence[Any]) -> types.Rollout:
  """Puts verdicts into `columns` (column 0 is the outcome) and `graded`."""
  reward = [v.reward if v is not None and v.graded else 0.0 for v in verdicts]
  graded = [v is not None and v.graded for v in verdicts]
  return rollout.replace(
      columns=jnp.asarray(reward, jnp.float32)[:, None],
      column_where=jnp.asarray(graded, bool)[:, None], graded=jnp.asarray(graded, bool))


def informative_groups(sampled: Sampled) -> np.ndarray:
  """bool[B]: rows whose group has graded outcomes that are not all equal (dynamic sampling)."""
  group = np.asarray(sampled.rollout.group)
  outcome = np.asarray(sampled.rollout.columns)[:, 0]
  graded = np.asarray(sampled.rollout.graded)
  mixed = {g for g in np.unique(group[graded]) if np.ptp(outcome[graded & (group == g)]) > 0}
  return np.isin(group, list(mixed))


def rounds(
    draw: Callable[[int], Sequence[Mapping[str, Any]]],
    one_round: Callable[[Sequence[Mapping[str, Any]], int], Sampled],
    *,
    num_prompts: int,
    max_rounds: int,
) -> Sampled:
  """Dynamic sampling: rounds until `num_prompts` informative groups, in arrival order.

  Args:
    draw: (n) -> n tasks.
    one_round: (tasks, round number) -> Sampled.
    num_prompts: groups wanted, and drawn in each round.
    max_rounds: bound on the rounds; 1 keeps every group (no filter).

  Returns:
    One Sampled of the same shapes as a round: the first `num_prompts` kept
    groups; missing ones are unused rows. Groups beyond that are dropped and
    counted in 'groups_dropped'.

  Source: DAPO (arXiv 2503.14476), dynamic sampling; the raw outcome decides.
  """
  if max_rounds == 1:
    return one_round(draw(num_prompts), 0)
  kept, metrics, drawn = [], [], 0
  while sum(len(prompts) for _, prompts in kept) < num_prompts and len(metrics) < max_rounds:
    sampled = one_round(draw(num_prompts), len(metrics))
    drawn += num_prompts
    rows = informative_groups(sampled)
    kept.append((sampled, np.unique(np.asarray(sampled.rollout.prompt)[rows])))
    metrics.append(sampled.metrics)
  merged = _merge(kept, num_prompts)
  total = sum(len(prompts) for _, prompts in kept)
  summed = {key: sum(m[key] for m in metrics) for key in metrics[0]}
  for key in summed:
    if not key.startswith(('seconds/', 'sampled_', 'iterations')):
      summed[key] /= len(metrics)  # shares
  summed |= {'rounds': float(len(metrics)), 'groups_drawn': float(drawn),
             'groups_kept': float(min(total, num_prompts)),
             'groups_dropped': float(drawn - min(total, num_prompts))}
  return merged._replace(metrics=summed)


def _merge(kept, num_prompts):
  """Joins the kept prompts of several rounds into one rollout of a round's shape."""
  width = max(s.rollout.prompts.tokens.shape[1] for s, _ in kept)
  like = jax.device_get(kept[0][0].rollout)
  num_rows = like.where.shape[0]
  rows, prompts = [], []  # (round, row, new prompt), (round, prompt)
  for i, (sampled, chosen) in enumerate(kept):
    prompt = np.asarray(sampled.rollout.prompt)
    where = np.asarray(sampled.rollout.where)
    for p in chosen[:num_prompts - len(prompts)]:
      rows += [(i, row, len(prompts)) for row in np.flatnonzero(where & (prompt == p))]
      prompts.append((i, p))
  hosted = [jax.device_get(s.rollout) for s, _ in kept]
  prompt_pad = lambda x: np.pad(x, ((0, 0), (0, width - x.shape[1])))

  def pick(leaves, places, size):
    """Rows `places` of the rounds' leaves, then zeros up to `size`."""
    out = np.zeros((size, *leaves[0].shape[1:]), leaves[0].dtype)
    for to, (i, row, *_) in enumerate(places):
      out[to] = leaves[i][row]
    return out

  new_prompts = types.Prompts(
      tokens=pick([prompt_pad(r.prompts.tokens) for r in hosted], prompts, num_prompts),
      length=np.maximum(pick([r.prompts.length for r in hosted], prompts, num_prompts), 1),
      id=pick([r.prompts.id for r in hosted], prompts, num_prompts))
  plain = [r.replace(prompts=None) for r in hosted]
  merged = jax.tree.map(lambda *leaves: pick(leaves, rows, num_rows), *plain)
  prompt = np.zeros(num_rows, np.int32)
  prompt[:len(rows)] = [new for _, _, new in rows]
  rollout = jax.tree.map(jnp.asarray, merged.replace(
      prompts=new_prompts, prompt=prompt, group=prompt))
  empty = num_rows - len(rows)
  text_side = lambda name, blank: [getattr(kept[i][0], name)[row] for i, row, _ in rows] + (
      [blank] * empty)
  return Sampled(rollout, text_side('tasks', None), text_side('texts', ''),
                 text_side('verdicts', None), {})


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
