"""One token a slot: the distribution drawn from, and the cases with one right answer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr.policy import heads
from rlvr.samplers import choose as choose_lib

LARGEST = np.float32(1) - np.float32(2) ** -24  # the largest uniform below 1


@functools.partial(jax.jit, static_argnames='truncation')
def choose(logits, uniforms, temperature, truncation=heads.NO_TRUNCATION):
  return choose_lib.choose(logits, uniforms, temperature, truncation)


def draw(logits, uniforms, temperature=1.0, truncation=heads.NO_TRUNCATION):
  """Tokens and log-probs of one distribution under many pairs of uniforms."""
  uniforms = jnp.asarray(uniforms, jnp.float32)
  wide = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (len(uniforms), len(logits)))
  tokens, logp = choose(wide, uniforms, jnp.full(len(uniforms), temperature), truncation)
  return np.asarray(tokens), np.asarray(logp)


def grid(num):
  """num^2 pairs, the midpoints of equal cells."""
  middle = (np.arange(num) + 0.5) / num
  return np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 2)


class TestDistribution:

  @pytest.mark.parametrize('vocab', [5, 256, 300, 520])
  @pytest.mark.parametrize('temperature', [1.0, 0.6])
  def test_enumeration_over_a_grid(self, vocab, temperature):
    logits = np.random.default_rng(vocab).normal(size=vocab).astype(np.float32) * 2
    num = 64
    tokens, logp = draw(logits, grid(num), temperature)
    probs = np.asarray(jax.nn.softmax(jnp.asarray(logits, jnp.float32) / temperature))
    frequency = np.bincount(tokens, minlength=vocab) / num ** 2
    # Each coordinate's share of a cell is off by at most one grid step.
    chunk = np.pad(probs, (0, -vocab % 256)).reshape(-1, min(256, vocab + -vocab % 256)).sum(1)
    bound = chunk[np.arange(vocab) // 256] / num + probs / chunk[np.arange(vocab) // 256] / num
    assert (np.abs(frequency - probs) <= bound + 1 / num ** 2 + 1e-6).all()
    np.testing.assert_allclose(np.exp(logp), probs[tokens], rtol=1e-5)

  @pytest.mark.parametrize('truncation', [
      heads.NO_TRUNCATION, heads.Truncation(top_k=4), heads.Truncation(top_p=0.8),
      heads.Truncation(min_p=0.2)], ids=['all', 'top_k', 'top_p', 'min_p'])
  def test_chi_square(self, truncation):
    logits = np.array([0.3, 1.4, -0.2, 0.9, -1.5, 0.0, 1.1])
    num = 20_000
    tokens, logp = draw(logits, np.random.default_rng(5).uniform(size=(num, 2)), 0.8, truncation)
    kept = heads.sampling_logits(
        jnp.asarray(logits, jnp.float32)[None], jnp.array([0.8]), truncation)[0]
    probs = np.asarray(jax.nn.softmax(kept), np.float64)
    counts = np.bincount(tokens, minlength=7)
    assert (counts[probs < 1e-9] == 0).all()
    on = probs > 1e-9
    statistic = ((counts - num * probs)[on] ** 2 / (num * probs[on])).sum()
    assert statistic < 24  # 6 degrees of freedom: one in 2000
    np.testing.assert_allclose(logp, np.log(probs[tokens]), atol=1e-5)

  def test_a_large_vocabulary_is_reached_everywhere(self):
    vocab = 49_152
    rng = np.random.default_rng(0)
    tokens, logp = draw(np.zeros(vocab), rng.uniform(size=(512, 2)))
    np.testing.assert_allclose(logp, -np.log(vocab), rtol=1e-5)
    assert tokens.min() < vocab * 0.02 and tokens.max() > vocab * 0.98
    assert abs(tokens.mean() / vocab - 0.5) < 0.06
    assert len(set(tokens % 256)) > 200  # the second uniform resolves single tokens
    ends, _ = draw(np.zeros(vocab), [[0, 0], [LARGEST, LARGEST]])
    np.testing.assert_array_equal(ends, [0, vocab - 1])


class TestGreedy:

  def test_ties_go_to_the_lowest_id_and_log_probability_is_zero(self):
    logits = np.zeros(300)
    logits[[7, 280]] = 3.0
    tokens, logp = draw(logits, grid(3), temperature=0.0)
    np.testing.assert_array_equal(tokens, 7)
    np.testing.assert_array_equal(logp, 0.0)

  def test_rows_have_their_own_temperature(self):
    logits = jnp.tile(jnp.array([[0.0, 1.0, 0.5]]), (3, 1))
    uniforms = jnp.full((3, 2), LARGEST)
    tokens, logp = choose(logits, uniforms, jnp.array([0.0, 1.0, 1e-3]))
    np.testing.assert_array_equal(tokens, [1, 2, 1])
    np.testing.assert_allclose(
        logp, [0.0, 0.5 - np.log(1 + np.e + np.exp(0.5)), 0.0], atol=1e-5)


class TestSupport:

  @pytest.mark.parametrize('vocab', [5, 300, 49_152])
  def test_no_mass_is_never_drawn(self, vocab):
    # The only mass lies inside, with empty chunks before and after it.
    logits = np.full(vocab, heads.NEG)
    inside = [vocab // 2, vocab // 2 + 1]
    logits[inside] = 0.0
    corners = [[a, b] for a in (0, 0.5, LARGEST) for b in (0, 0.5, LARGEST)]
    tokens, logp = draw(logits, corners)
    assert set(tokens) == set(inside)
    np.testing.assert_allclose(logp, -np.log(2), rtol=1e-5)

  def test_rounding_of_the_running_sum_draws_no_empty_chunk(self):
    # 600 chunks, of which a top-k may leave most empty; a parallel running sum of so
    # many moves by an ulp where nothing is added, and the uniforms aim just there.
    rng = np.random.default_rng(0)
    raw = np.log(rng.exponential(size=(24, 600)))
    first = jnp.asarray(np.where(rng.uniform(size=(24, 600)) < 0.3, raw, heads.NEG), jnp.float32)
    mass = jnp.exp(first - jnp.max(first, axis=1, keepdims=True))
    running = np.asarray(jax.jit(lambda m: jnp.cumsum(m, axis=-1))(mass))
    empty = np.asarray(mass)[:, 1:] == 0
    seeming = empty & (np.diff(running, axis=1) > 0)
    rows, before = np.nonzero(seeming if seeming.any() else empty)
    rows, before = rows[:40], before[:40]
    logits = jnp.full((24, 600, 256), heads.NEG).at[:, :, 7].set(first).reshape(24, -1)[rows]
    aimed = (running[rows, before] / running[rows, -1]).astype(np.float32)
    for toward in (aimed, np.float32(0), np.float32(1)):
      pair = np.stack([np.minimum(np.nextafter(aimed, toward), LARGEST), aimed], axis=1)
      tokens, logp = choose(logits, jnp.asarray(pair), jnp.ones(len(rows)))
      assert (np.asarray(mass)[rows, tokens // 256] > 0).all() and (tokens % 256 == 7).all()
      assert float(logp.min()) > -30

  def test_truncated_tokens_are_never_drawn(self):
    logits = np.array([0.0, 5.0, 4.9, -3.0])
    tokens, logp = draw(logits, grid(32), 1.0, heads.Truncation(top_k=2))
    assert set(tokens) == {1, 2}
    np.testing.assert_allclose(np.exp(logp).min() + np.exp(logp).max(), 1.0, rtol=1e-5)


class TestBadLogits:

  @pytest.mark.parametrize('temperature', [0.0, 1.0])
  @pytest.mark.parametrize('vocab', [6, 300])
  def test_nan_gives_nan(self, temperature, vocab):
    logits = jnp.zeros((2, vocab)).at[1, 3].set(jnp.nan)
    tokens, logp = choose(logits, jnp.full((2, 2), 0.5), jnp.full(2, temperature))
    assert np.isfinite(logp[0]) and np.isnan(logp[1])
    assert 0 <= int(tokens[0]) < vocab
