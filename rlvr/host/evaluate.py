"""Evaluation statistics: pass@k, avg@k, greedy accuracy, each with an interval.

Pure NumPy over a table of verdicts, correct[prompt, sample]. Rows that no
grader scored are outside every statistic (where=False), never counted as wrong.
"""

import math
import statistics
from collections.abc import Iterable

import numpy as np

_CHUNK = 64  # bootstrap resamples drawn at a time: bounds memory at many prompts


def pass_at_k(n: np.ndarray, c: np.ndarray, k: int) -> np.ndarray:
  """Probability that one of k samples drawn without replacement is correct.

      pass@k = 1 - C(n - c, k) / C(n, k)

  computed as a product, so that no binomial overflows. Drawing k of the n with
  replacement instead is biased low (fault 55: n=4, c=1, k=4 gives .684, not 1).

  Args:
    n: i[...] samples a prompt.
    c: i[...] how many of them are correct, 0 <= c <= n.
    k: how many are drawn, 1 <= k <= min(n).

  Returns:
    f64[...] in [0, 1].

  Raises:
    ValueError: k or c is out of its range.

  Source: Evaluating Large Language Models Trained on Code, arXiv 2107.03374, eq. 1.
  """
  n, c = np.broadcast_arrays(np.asarray(n), np.asarray(c))
  if k < 1:
    raise ValueError(f'k must be at least 1, got {k}.')
  if n.size and k > n.min():
    raise ValueError(f'pass@{k} needs {k} samples a prompt, but a prompt has {n.min()}.')
  if np.any(c < 0) or np.any(c > n):
    raise ValueError(f'c must lie in [0, n], got c={c} for n={n}.')
  draws = np.arange(k)
  wrong_left = np.maximum((n - c)[..., None] - draws, 0)
  return 1.0 - np.prod(wrong_left / (n[..., None] - draws), axis=-1)


def avg_at_k(correct: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
  """Share of each prompt's graded samples that is correct.

  Args:
    correct: bool[P, K].
    where: bool[P, K], graded; None means all.

  Returns:
    f64[P]; NaN for a prompt without a graded sample.
  """
  correct, where = _checked(correct, where)
  n = where.sum(1)
  return np.where(n > 0, (correct & where).sum(1) / np.maximum(n, 1), np.nan)


def bootstrap_interval(
    values: np.ndarray,
    *,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
  """Percentile interval of the mean by resampling prompts (clusters), not samples.

  The samples of one prompt are alike, so resampling them singly would give an
  interval that is too narrow. The same values and seed give the same interval.
  Equal values give a width of zero: with few prompts read that as "no
  information", and use `wilson_interval` where there is one verdict a prompt.

  Args:
    values: f[P], one statistic a prompt.
    confidence: coverage in (0, 1).
    num_resamples: bootstrap draws.
    seed: of the draws.

  Returns:
    (low, high).

  Raises:
    ValueError: no values, or one is not finite.
  """
  values = np.asarray(values, np.float64)
  if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)):
    raise ValueError(f'values must be a non-empty finite f[P], got {values!r}.')
  rng = np.random.default_rng(seed)
  means = []
  for start in range(0, num_resamples, _CHUNK):
    rows = min(_CHUNK, num_resamples - start)
    means.append(values[rng.integers(values.size, size=(rows, values.size))].mean(1))
  tail = (1 - confidence) / 2
  low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
  return float(low), float(high)


def wilson_interval(c: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
  """Wilson's score interval of a share c/n; stays in [0, 1] and never has zero width.

  Raises:
    ValueError: n < 1 or c outside [0, n].
  """
  if n < 1 or not 0 <= c <= n:
    raise ValueError(f'Need n >= 1 and 0 <= c <= n, got c={c}, n={n}.')
  z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
  share = c / n
  centre = (share + z * z / (2 * n)) / (1 + z * z / n)
  half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
  return max(0.0, centre - half), min(1.0, centre + half)


def summarise(
    correct: np.ndarray | None,
    greedy: np.ndarray | None,
    ks: Iterable[int],
    *,
    where: np.ndarray | None = None,
    greedy_where: np.ndarray | None = None,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> dict[str, float]:
  """All evaluation numbers of one task, ready for the metrics writer.

  Args:
    correct: bool[P, K], verdicts of K samples a prompt; None for greedy only.
    greedy: bool[P], verdicts of the greedy answers; None for samples only.
    ks: the k of pass@k.
    where: bool[P, K], graded samples; None means all.
    greedy_where: bool[P], graded greedy answers; None means all.
    confidence: coverage of the intervals.
    num_resamples: of the bootstrap.
    seed: of the bootstrap.

  Returns:
    'accuracy' (Wilson), 'avg@K' and 'pass@k' for each k (cluster bootstrap),
    each with '_low' and '_high', and 'ungraded', the share left out. A prompt
    with fewer than k graded samples is outside pass@k, and 'pass@k_left_out'
    then counts such prompts.

  Raises:
    ValueError: a k exceeds K or what any prompt has graded, or nothing is graded.
  """
  result: dict[str, float] = {}
  num_ungraded = num_rows = 0

  def put(name, value, interval):
    result[name], (result[f'{name}_low'], result[f'{name}_high']) = float(value), interval

  if greedy is not None:
    rows, graded = _checked(np.asarray(greedy)[:, None], _column(greedy_where))
    n, c = int(graded.sum()), int((rows & graded).sum())
    if not n:
      raise ValueError(f'None of the {rows.shape[0]} greedy answers is graded.')
    put('accuracy', c / n, wilson_interval(c, n, confidence=confidence))
    num_ungraded, num_rows = rows.shape[0] - n, rows.shape[0]

  if correct is not None:
    correct, graded = _checked(correct, where)
    n, c = graded.sum(1), (correct & graded).sum(1)
    if not n.any():
      raise ValueError(f'None of the {graded.size} samples is graded.')
    options = dict(confidence=confidence, num_resamples=num_resamples, seed=seed)
    per_prompt = avg_at_k(correct, graded)[n > 0]
    put(f'avg@{correct.shape[1]}', per_prompt.mean(), bootstrap_interval(per_prompt, **options))
    for k in ks:
      enough = n >= k
      if not enough.any():
        raise ValueError(
            f'pass@{k} needs {k} graded samples a prompt; of {correct.shape[1]} samples the '
            f'prompts have at most {n.max()} graded.')
      per_prompt = pass_at_k(n[enough], c[enough], k)
      put(f'pass@{k}', per_prompt.mean(), bootstrap_interval(per_prompt, **options))
      if not enough.all():
        result[f'pass@{k}_left_out'] = float((~enough).sum())
    num_ungraded += graded.size - int(graded.sum())
    num_rows += graded.size

  result['ungraded'] = num_ungraded / max(num_rows, 1)
  return result


def _column(where):
  return None if where is None else np.asarray(where)[:, None]


def _checked(correct, where):
  correct = np.asarray(correct)
  where = np.ones(correct.shape, bool) if where is None else np.asarray(where)
  for name, array in (('correct', correct), ('where', where)):
    # A float table of rewards would count every reward above 0 as correct.
    if array.dtype != bool or array.ndim != 2 or array.shape != correct.shape:
      raise ValueError(
          f'{name} must be bool of shape {correct.shape} (two axes in samples, one in greedy), '
          f'got {array.dtype}{list(array.shape)}.')
  return correct, where

