"""KLPO: worked gradients, exact enumeration, and where its gradient vanishes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import losses
from rlvr import testing

Q = jnp.array([.5, .3, .2])  # the sampler
LOGITS = jnp.array([.1, -.4, .3])
REWARD = jnp.array([1., 0., .5])  # of each token, which is a whole response
BETA = .5


def term(logp, rolled, reward, *, drawn=None, rolled_drawn=None, **options):
  """Summed terms of rows [n, T] and their metrics; drawn [n, T, M] or None."""
  extras = {} if rolled_drawn is None else {'mc_rollout_logp': rolled_drawn}
  cell = testing.make_cell(jnp.zeros(logp.shape), rollout_logp=rolled, reward=reward,
                           extras=extras)
  return losses.klpo(testing.make_output(logp, query_logp=drawn), cell, {}, **options)


def enumerated(logits, num_draws, reward=REWARD, q=Q, **options):
  """E over a token and M draws of q of the term's gradient on the logits, exactly."""
  size = len(q)
  rows = jnp.array(list(itertools.product(range(size), repeat=1 + num_draws)))
  chance = jnp.prod(q[rows], axis=1)

  def loss(logits):
    logp = jax.nn.log_softmax(logits)
    pick = lambda table: (table[rows[:, :1]], table[rows[:, None, 1:]])
    (own, drawn), (rolled, rolled_drawn) = pick(logp), pick(jnp.log(q))
    more = dict(drawn=drawn, rolled_drawn=rolled_drawn) if num_draws else {}
    terms, _ = term(own, rolled, reward[rows[:, 0]], beta=BETA, **more, **options)
    return jnp.sum(chance * terms[:, 0])

  return np.asarray(jax.grad(loss)(logits))


def residual(logits, q=Q, reward=REWARD):
  """D of each token with the full KL."""
  gap = jax.nn.log_softmax(logits) - jnp.log(q)
  return reward - BETA * (gap - jnp.sum(q * gap))


def population(logits, q=Q, reward=REWARD):
  loss = lambda logits: jnp.sum(q * residual(logits, q, reward)**2) / (2 * BETA)
  return np.asarray(jax.grad(loss)(logits))


class TestToken:

  def test_worked(self):
    """Card: q = .25, .5, p = .5, .25, R = 1, beta = .5; draws get +h/2 each."""
    logp, rolled = jnp.log(jnp.array([[.5, .25]])), jnp.log(jnp.array([[.25, .5]]))
    drawn = jnp.log(jnp.full((1, 2, 2), .3))
    loss = lambda logp, drawn: term(
        logp, rolled, jnp.ones(1), drawn=drawn, rolled_drawn=drawn, beta=.5)[0].sum()
    own, other = jax.grad(loss, (0, 1))(logp, drawn)
    np.testing.assert_allclose(own, [[-.653426, -1.346574]], rtol=1e-5)
    np.testing.assert_allclose(other, jnp.stack([-own / 2] * 2, axis=-1), rtol=1e-5)

  @pytest.mark.parametrize('num_draws', [1, 2])
  def test_its_mean_is_the_population_gradient(self, num_draws):
    np.testing.assert_allclose(enumerated(LOGITS, num_draws), population(LOGITS), atol=1e-6)

  def test_a_constant_reward_moves_nothing_more(self):
    np.testing.assert_allclose(
        enumerated(LOGITS, 1, REWARD + 3.), enumerated(LOGITS, 1), atol=1e-6)
    binary = dict(estimator='binary')
    assert np.abs(enumerated(LOGITS, 0, REWARD + 3., **binary)
                  - enumerated(LOGITS, 0, **binary)).max() > .01

  def test_stationary_at_the_tilted_sampler(self):
    best = jnp.log(Q) + REWARD / BETA
    np.testing.assert_allclose(enumerated(best, 1), 0, atol=1e-6)
    log_z = jax.nn.logsumexp(best)
    divergence = jnp.sum(Q * (jnp.log(Q) - jax.nn.log_softmax(best)))
    np.testing.assert_allclose(
        BETA * log_z, jnp.sum(Q * REWARD) + BETA * divergence, rtol=1e-5)

  def test_on_the_sampler_it_is_the_rewards_score(self):
    """p = q: -R (grad logp - mean grad log p(v)), whose mean is -E[R grad logp]."""
    expected = -Q * (REWARD - jnp.sum(Q * REWARD))
    np.testing.assert_allclose(enumerated(jnp.log(Q), 2), expected, atol=1e-6)


class TestSequence:

  def test_leaving_one_draw_out_is_unbiased(self):
    grad = enumerated(LOGITS, 2, route='sequence')
    np.testing.assert_allclose(grad, population(LOGITS), atol=1e-6)

  def test_the_square_of_the_mean_is_not(self):
    rows = list(itertools.product(range(3), repeat=3))

    def plug_in(logits):
      logp, log_q = jax.nn.log_softmax(logits), jnp.log(Q)
      total = 0.
      for y, *v in rows:
        k = sum(log_q[i] - logp[i] for i in v) / 2
        d = REWARD[y] - BETA * (logp[y] - log_q[y] + k)
        total += Q[y] * Q[v[0]] * Q[v[1]] * d**2 / (2 * BETA)
      return total

    assert np.abs(jax.grad(plug_in)(LOGITS) - population(LOGITS)).max() > .01

  def test_binary_is_the_gradient_of_the_square(self):
    """Two choices a token: binary is the full KL, so it is d(D^2 / 2 beta), two tokens long."""
    q = jnp.array([[.3, .7], [.6, .4]])
    tokens = jnp.array([0, 1])
    pick = lambda logits: jnp.take_along_axis(
        jax.nn.log_softmax(logits), tokens[:, None], axis=1)[:, 0]

    def surrogate(logits):
      terms, metrics = term(pick(logits)[None], pick(jnp.log(q))[None], jnp.ones(1), beta=BETA,
                            route='sequence', estimator='binary')
      return jnp.sum(terms), metrics['regression'][0, 0]

    def square(logits):
      gap = jax.nn.log_softmax(logits) - jnp.log(q)
      own = pick(logits) - pick(jnp.log(q))
      return (1 - BETA * jnp.sum(own - jnp.sum(q * gap, axis=1)))**2 / (2 * BETA)

    logits = jnp.array([[.2, -.3], [.5, .1]])
    grad, regression = jax.grad(surrogate, has_aux=True)(logits)
    np.testing.assert_allclose(regression, square(logits), rtol=1e-5)
    step = .01
    for i in np.ndindex(2, 2):
      numeric = (square(logits.at[i].add(step)) - square(logits.at[i].add(-step))) / (2 * step)
      np.testing.assert_allclose(grad[i], numeric, atol=1e-3)


class TestKlpo:

  def test_certain_and_far_off_tokens_are_finite(self):
    logp, rolled = jnp.array([[0., -1e-9, -80., -jnp.inf]]), jnp.array([[-1e-9, 0., -.1, -1.]])
    for route in ('token', 'sequence'):
      loss = lambda x, route=route: term(
          x, rolled, jnp.ones(1), route=route, estimator='binary')[0].sum()
      value, grad = jax.value_and_grad(loss)(logp)
      assert np.isfinite(value) and np.isfinite(grad).all()

  def test_what_it_refuses(self):
    logp, reward = jnp.full((1, 1), -1.), jnp.ones(1)
    one = jnp.full((1, 1, 1), -1.)
    for options, message in (
        (dict(beta=0.), 'beta=0.0'), (dict(route='x'), "route='x'"),
        (dict(estimator='full'), "estimator='full'"), ({}, 'num_draws'),
        (dict(route='sequence', drawn=one, rolled_drawn=one), '1 draws a token; it needs 2')):
      with pytest.raises(ValueError, match=message):
        term(logp, logp, reward, **options)
