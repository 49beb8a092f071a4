"""Dynamic sampling: rounds of prompts until enough groups carry a signal."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import types
from rlvr.host import rollouts


def informative_groups(sampled: rollouts.Sampled) -> np.ndarray:
  """bool[B]: rows whose group has graded outcomes that are not all equal (dynamic sampling)."""
  group = np.asarray(sampled.rollout.group)
  outcome = np.asarray(sampled.rollout.columns)[:, 0]
  graded = np.asarray(sampled.rollout.graded)
  mixed = {g for g in np.unique(group[graded]) if np.ptp(outcome[graded & (group == g)]) > 0}
  return np.isin(group, list(mixed))


def rounds(
    draw: Callable[[int], Sequence[Mapping[str, Any]]],
    one_round: Callable[[Sequence[Mapping[str, Any]], int], rollouts.Sampled],
    *,
    num_prompts: int,
    max_rounds: int,
) -> rollouts.Sampled:
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
  return merged._replace(metrics=summed(metrics) | {
      'rounds': float(len(metrics)), 'groups_drawn': float(drawn),
      'groups_kept': float(min(total, num_prompts)),
      'groups_dropped': float(drawn - min(total, num_prompts))})


def summed(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
  """The metrics of several rounds as one: seconds and counts are summed, shares averaged."""
  total = {key: sum(m[key] for m in metrics) for key in metrics[0]}
  return {key: x if key.startswith(('seconds/', 'sampled_', 'iterations')) else x / len(metrics)
          for key, x in total.items()}


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
  return rollouts.Sampled(rollout, text_side('tasks', None), text_side('texts', ''),
                 text_side('verdicts', None), {})
