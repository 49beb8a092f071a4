"""Item response theory: the quality of a response from verdicts on criteria, probit model.

P(y_ij = 1) = Phi(a_j (z_i - b_j)): a criterion has a discrimination a > 0 and a
difficulty b, a response a quality z ~ N(0, 1); verdicts are independent given z.

Shared arguments:
  verdicts: f32[B, J], 1 favourable, 0 not, or between; read on `judged` only.
  judged: bool[B, J].
  a, b: f32[J], or f32[B, J] where rows have criteria of their own.
  z: f32[B].
"""

import chex
import jax
import jax.numpy as jnp
from jax.scipy import stats

from rlvr import groups

Array = jax.Array

_HALF_WIDTH = 4.0  # of the first bracket of the mode
_HALVINGS = 40


def orient(verdicts: Array, points: tuple) -> Array:
  """Favourable verdicts: 1 - y for a criterion of negative points, which is good if absent.

  Args:
    verdicts: f32[B, J], whether a criterion is met.
    points: J numbers, none 0; only their signs are read.

  Raises:
    ValueError: not one number a criterion, or a 0.
  """
  if len(points) != verdicts.shape[-1] or 0 in points:
    raise ValueError(
        f'points={points} must be one number other than 0 for each of the {verdicts.shape[-1]} '
        'criteria.')
  good = jnp.array([[p > 0 for p in points]], bool).reshape(1, -1)
  return jnp.where(good, verdicts, 1.0 - verdicts)


def log_likelihood(verdicts: Array, a: Array, b: Array, z: Array) -> Array:
  """f32[B, J]: y log P + (1 - y) log(1 - P)."""
  x = _standardised(a, b, z)
  return verdicts * stats.norm.logcdf(x) + (1.0 - verdicts) * stats.norm.logcdf(-x)


def score(verdicts: Array, judged: Array, a: Array, b: Array, z: Array) -> Array:
  """f32[B]: the derivative in z of the log posterior.

  -z + sum_j judged * a [ y phi(x) / Phi(x) - (1 - y) phi(x) / Phi(-x) ]; the
  ratios through log Phi, so that they are right far out.
  """
  x = _standardised(a, b, z)
  met = jnp.exp(stats.norm.logpdf(x) - stats.norm.logcdf(x))
  unmet = jnp.exp(stats.norm.logpdf(x) - stats.norm.logcdf(-x))
  y = groups.zero_off(verdicts, judged)
  terms = jnp.where(judged, _on_rows(a, x) * (y * met - (1.0 - y) * unmet), 0.0)
  return jnp.sum(terms, axis=1) - z


def quality(verdicts: Array, judged: Array, a: Array, b: Array) -> Array:
  """f32[B]: the posterior mode of z; 0 for a row without verdicts.

  The posterior is strictly log-concave, so that its mode is where `score` is 0;
  by bisection of [-4, 4], doubled until it holds the mode. Without gradient.
  """
  chex.assert_rank([verdicts, judged], 2)
  chex.assert_equal_shape([verdicts, judged])
  slope = lambda z: score(verdicts, judged, a, b, z)

  def outside(width):
    return (slope(width) > 0) | (slope(-width) < 0)

  def halve(_, bounds):
    low, high = bounds
    middle = (low + high) / 2
    rising = slope(middle) > 0
    return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

  start = jnp.full(verdicts.shape[:1], _HALF_WIDTH)
  width = jax.lax.while_loop(
      lambda width: jnp.any(outside(width)),
      lambda width: jnp.where(outside(width), 2 * width, width), start)
  low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (-width, width))
  none = ~jnp.any(judged, axis=1)
  return jax.lax.stop_gradient(jnp.where(none, 0.0, (low + high) / 2))


def information(a: Array, b: Array, z: Array) -> Array:
  """f32[B, J], Fisher information on z of a verdict: a^2 phi(x)^2 / (P (1 - P))."""
  x = _standardised(a, b, z)
  log_ratio = 2 * stats.norm.logpdf(x) - stats.norm.logcdf(x) - stats.norm.logcdf(-x)
  return jnp.square(_on_rows(a, x)) * jnp.exp(log_ratio)


def choose_criteria(
    verdicts: Array, a: Array, b: Array, group: Array, where: Array, budget: int
) -> Array:
  """bool[B, J]: the criteria that a group is judged on, the most informative one by one.

  `budget` times: the criterion not yet asked whose information, summed over the
  group's rows at their present quality, is largest (the lowest index of equals) is
  judged on the whole group, and the qualities (0 at the start) are taken again.
  Verdicts that are not asked for are not read.

  Args:
    verdicts, a, b: see the module; all rows of a group have the same a and b.
    group: i32[B].
    where: bool[B], the rows that are judged.
    budget: criteria a row; at least J judges all.
  """
  num_criteria = verdicts.shape[1]
  members = jnp.broadcast_to(where[:, None], verdicts.shape)

  def ask(_, asked):
    z = quality(verdicts, asked & members, a, b)
    gain = groups.sum(information(a, b, z), group, members)
    best = jnp.argmax(jnp.where(asked, -jnp.inf, gain), axis=1)
    return asked | (jnp.arange(num_criteria)[None] == best[:, None])

  none = jnp.zeros(verdicts.shape, bool)
  return jax.lax.fori_loop(0, min(budget, num_criteria), ask, none) & members


def _standardised(a, b, z):
  z = z[:, None]
  return _on_rows(a, z) * (z - _on_rows(b, z))


def _on_rows(x, like):
  """f32[J] as [1, J], so that it stands beside [B, J]; [B, J] as it is."""
  return x if x.ndim == like.ndim else x[None]
