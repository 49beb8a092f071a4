"""Right answers against the wrong ones of their group, by mean log-likelihood: ConSPO."""

import jax
import jax.numpy as jnp

from rlvr import groups
from rlvr import types
from rlvr.losses import ratios

Array = jax.Array


def scores(logp: Array, mask: Array) -> Array:
  """s = sum_t mask * logp / len, f32[n]: mean log-likelihood; 0 for an empty response."""
  return groups.row_mean(ratios.on_mask(logp, mask), mask)


def margin_at(step: Array, *, margin: float, ramp_steps: int) -> Array:
  """0 at step 0, linear to `margin` at ramp_steps, then constant; f32 of step's shape."""
  return margin * jnp.clip(step / ramp_steps, 0.0, 1.0).astype(jnp.float32)


def conspo(
    out: types.PolicyOutput,
    cell: types.Batch,
    knobs: dict[str, Array],
    *,
    temperature: float = 0.1,
    margin: float = 0.1,
    ramp_steps: int = 100,
    right_above: float = 0.5,
) -> tuple[Array, dict[str, Array]]:
  """InfoNCE: l_i = log(1 + sum over wrong j of exp((s_j - s_i + m) / temperature)).

  A prompt's loss is the mean of l_i over its right responses, of which none stands in
  another's denominator. The term of a right row is l_i * members / right ones, of a
  wrong row 0, so that with the mask `masks.two_sided_tokens` and the aggregate
  `aggregate.prompt_mean_seq_mean` the objective is the mean over two-sided prompts. It
  replaces advantage, ratio and clip; nothing bounds the step, so use fresh data.

  Args:
    out: reads logp f32[n, T].
    cell: reads weights (the term's own: where it is not 0), reward, group, extras['step'];
      whole groups share a cell.
    knobs: not read.
    temperature: nats a token, above 0.
    margin: the margin m at the end of its ramp, nats a token, at least 0.
    ramp_steps: training steps from m = 0 to `margin`, at least 1.
    right_above: a reward above this is right.

  Returns:
    terms f32[n, T], at least 0, 0 off the term's weight and in a group of one kind;
    metrics score (s), score_gap (mean s of the group's right rows less its wrong ones').
    The gradient sums to 0 over the scores of a group, and is at most 0 on right ones.

  Raises:
    ValueError: an option out of range.

  Source: ConSPO (arXiv 2605.12969). Provenance: abstract and a third-party note; score,
  InfoNCE and growing margin confirmed; reconstructed: the formula, temperature, margin
  and what one-sided groups do.
  """
  del knobs
  if temperature <= 0 or margin < 0 or ramp_steps < 1:
    raise ValueError(f'conspo: temperature={temperature} must be above 0, margin={margin} at '
                     f'least 0 and ramp_steps={ramp_steps} at least 1.')
  (weight,) = cell.weights.values()
  at = weight != 0
  where = jnp.any(at, axis=1)
  right = where & (groups.zero_off(cell.reward, where) > right_above)
  wrong = where & ~right
  s = scores(out.logp, at)
  m = margin_at(cell.extras['step'], margin=margin, ramp_steps=ramp_steps)
  # Logsumexp over the wrong ones of the group, then over it and 0.
  scaled = s / temperature
  top = jax.lax.stop_gradient(groups.max(scaled, cell.group, wrong))
  total = groups.sum(jnp.exp(jnp.where(wrong, scaled - top, 0.0)), cell.group, wrong)
  log_wrong = top + jnp.log(jnp.where(total > 0, total, 1.0))
  pull = jax.nn.softplus(log_wrong + (m - s) / temperature)

  num_right = groups.count(cell.group, right)
  two_sided = (num_right > 0) & (groups.count(cell.group, wrong) > 0)
  share = groups.count(cell.group, where) / jnp.maximum(num_right, 1)
  term = jnp.where(right & two_sided, share * pull, 0.0)
  gap = groups.mean(s, cell.group, right) - groups.mean(s, cell.group, wrong)
  on = lambda row: jnp.where(at, row[:, None], 0.0)
  metrics = {'score': on(s), 'score_gap': on(jnp.where(two_sided, gap, 0.0))}
  return on(term), jax.lax.stop_gradient(metrics)
