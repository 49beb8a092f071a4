"""The chunked head: temperature, truncation, chunks, and the memory it is for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import types
from rlvr.policy import heads
from rlvr.policy import tiny
from rlvr.policy import transformer

identity = lambda z: z


def one_token(logits, target=0, temperature=1.0, **options):
  """The head's numbers for one token with given logits."""
  out = heads.chunked_head(
      identity, jnp.array([logits], jnp.float32), jnp.array([target]),
      jnp.array([temperature], jnp.float32), **options)
  return {name: np.asarray(x)[0] for name, x in out.items()}


class TestTemperature:

  def test_divides_logits_before_normalising(self):
    # Fault 31: forms at T = 1 give -.1269, those that divide log-probs -.2539.
    out = one_token([2.0, 0.0], temperature=0.5)
    np.testing.assert_allclose(out['logp'], -0.01815, atol=1e-5)
    np.testing.assert_allclose(out['entropy'], 0.0901, atol=5e-5)  # not .3653
    np.testing.assert_allclose(one_token([2.0, 0.0])['entropy'], 0.3653, atol=5e-5)

  def test_a_greedy_row_is_scored_as_it_is(self):
    np.testing.assert_allclose(one_token([2.0, 0.0], temperature=0.0)['logp'], -0.1269, atol=1e-4)


class TestTruncation:
  PROBS = np.log([0.6, 0.3, 0.1])

  def test_ratio_is_one_at_equal_weights(self):
    # Fault 32: the sampler renormalises over its top 2, so the trainer must.
    kept = heads.Truncation(top_k=2)
    rolled = np.log([0.6 / 0.9, 0.3 / 0.9])
    for token in (0, 1):
      logp = one_token(self.PROBS, token, truncation=kept)['logp']
      np.testing.assert_allclose(np.exp(logp - rolled[token]), 1.0, rtol=1e-6)
    assert one_token(self.PROBS, 2, truncation=kept)['logp'] < -1e20
    # Entropy is that of the truncated distribution too.
    np.testing.assert_allclose(one_token(self.PROBS, truncation=kept)['entropy'],
                               -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)), rtol=1e-5)

  @pytest.mark.parametrize('truncation, kept', [
      (heads.Truncation(top_p=0.5), 1), (heads.Truncation(top_p=0.6001), 2),
      (heads.Truncation(top_p=0.95), 3), (heads.Truncation(top_k=9), 3),
      (heads.Truncation(min_p=0.4), 2), (heads.Truncation(min_p=0.6), 1),
      (heads.Truncation(top_k=2, top_p=0.6), 1), (heads.Truncation(top_k=1, min_p=0.01), 1)])
  def test_support(self, truncation, kept):
    logits = heads.sampling_logits(
        jnp.array([self.PROBS], jnp.float32), jnp.ones(1), truncation)[0]
    np.testing.assert_array_equal(np.asarray(logits) > heads.NEG, np.arange(3) < kept)

  def test_nucleus_is_of_the_tempered_distribution(self):
    # At temperature .5 the mass of the first is .36 / .46 = .78.
    keep = lambda t: np.asarray(heads.sampling_logits(
        jnp.array([self.PROBS], jnp.float32), jnp.array([t]), heads.Truncation(top_p=0.7)))
    assert (keep(1.0) > heads.NEG).sum() == 2
    assert (keep(0.5) > heads.NEG).sum() == 1


class TestChunks:
  NUM, VOCAB, WIDTH = 13, 17, 6

  def _inputs(self):
    rng = np.random.default_rng(0)
    f32 = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    ids = lambda *shape: jnp.asarray(rng.integers(0, self.VOCAB, shape), jnp.int32)
    temperature = jnp.asarray(rng.uniform(0.5, 1.5, self.NUM), jnp.float32)
    return f32(self.NUM, self.WIDTH), f32(self.WIDTH, self.VOCAB), ids(self.NUM), temperature, ids(
        self.NUM, 3)

  def _head(self, hidden, w, targets, temperature, query_ids, *, chunk, **options):
    return heads.chunked_head(lambda x: x @ w, hidden, targets, temperature, query_ids=query_ids,
                              num_top=2, chunk=chunk, **options)

  @pytest.mark.parametrize('chunk', [1, 4, 12])
  @pytest.mark.parametrize('truncation', [heads.NO_TRUNCATION, heads.Truncation(top_k=9)])
  def test_chunked_is_unchunked_in_value_and_gradient(self, chunk, truncation):
    hidden, w, *rest = self._inputs()

    def total(hidden, w, chunk):
      out = self._head(hidden, w, *rest, chunk=chunk, truncation=truncation)
      # Every output enters the gradient; excluded tokens by their finite stand-in.
      logp = jnp.maximum(out['logp'], -50.0)
      query = jnp.maximum(out['query_logp'], -50.0)
      score = (jnp.sum(logp * jnp.arange(self.NUM)) + jnp.sum(query) + jnp.sum(out['top_logp'] ** 2)
               + jnp.sum(jnp.sin(out['entropy'])))
      return score, out

    run = jax.jit(jax.value_and_grad(total, (0, 1), has_aux=True), static_argnums=2)
    (_, whole), grads = run(hidden, w, self.NUM)
    (_, cut), cut_grads = run(hidden, w, chunk)
    for name in whole:
      np.testing.assert_allclose(cut[name], whole[name], atol=1e-5, err_msg=name)
    for actual, expected in zip(cut_grads, grads, strict=True):
      np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

  def test_is_the_full_softmax(self):
    hidden, w, targets, temperature, query_ids = self._inputs()
    out = self._head(hidden, w, targets, temperature, query_ids, chunk=5)
    logp = np.asarray(jax.nn.log_softmax((hidden @ w) / temperature[:, None]), np.float64)
    rows = np.arange(self.NUM)
    np.testing.assert_allclose(out['logp'], logp[rows, targets], atol=1e-5)
    np.testing.assert_allclose(out['entropy'], -(np.exp(logp) * logp).sum(-1), atol=1e-5)
    np.testing.assert_allclose(out['query_logp'], logp[rows[:, None], query_ids], atol=1e-5)
    order = np.argsort(-logp, axis=1)[:, :2]
    np.testing.assert_array_equal(out['top_ids'], order)
    np.testing.assert_allclose(out['top_logp'], logp[rows[:, None], order], atol=1e-5)

  def test_one_more_token_does_not_change_the_others(self):
    hidden, w, *rest = self._inputs()
    whole = self._head(hidden, w, *rest, chunk=4)
    fewer = self._head(hidden[:-1], w, *(x[:-1] for x in rest), chunk=4)
    np.testing.assert_allclose(fewer['logp'], whole['logp'][:-1], atol=1e-6)


class TestMemory:
  """Fault 52: [T, V] in f32 is 2.3 GiB here; compiled only, nothing of that size is run."""

  T, VOCAB = 4096, 151_936
  LIMIT = T * VOCAB * 4 // 4

  def _temp_bytes(self, function, *shapes):
    return jax.jit(function).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

  def test_peak_of_forward_and_backward(self):
    shape = jax.ShapeDtypeStruct

    def total(hidden, w, targets, temperature, *, chunk):
      out = heads.chunked_head(
          lambda x: x @ w, hidden, targets, temperature, chunk=chunk)
      return jnp.sum(out['logp']) + jnp.sum(out['entropy'])

    shapes = (shape((self.T, 8), jnp.float32), shape((8, self.VOCAB), jnp.float32),
              shape((self.T,), jnp.int32), shape((self.T,), jnp.float32))
    bytes_at = lambda chunk: self._temp_bytes(
        jax.grad(functools.partial(total, chunk=chunk), (0, 1)), *shapes)
    assert 0 < bytes_at(128) < self.LIMIT
    # A few arrays of [chunk, V] and no more; and the measure sees what chunks save.
    assert bytes_at(256) < 4.1 * 256 * self.VOCAB * 4
    assert bytes_at(self.T) > 3 * self.LIMIT

  def test_peak_of_scoring_by_the_policy(self):
    policy = transformer.make_policy(tiny.config(vocab_size=self.VOCAB))
    shape = jax.ShapeDtypeStruct
    prompts = types.Prompts(tokens=shape((1, 8), jnp.int32), length=shape((1,), jnp.int32),
                            id=shape((1,), jnp.int32))
    token = lambda dtype: shape((1, self.T), dtype)
    row = lambda dtype: shape((1,), dtype)
    rows = types.Rollout(
        prompts=prompts, prompt=row(jnp.int32), group=row(jnp.int32), where=row(bool),
        tokens=token(jnp.int32), valid=token(bool), mask=token(jnp.float32),
        rollout_logp=token(jnp.float32), version=token(jnp.int32), source=row(jnp.int32),
        stop=row(jnp.int32), temperature=row(jnp.float32))
    params = jax.eval_shape(policy.init, jax.random.key(0))
    total = lambda params, rows: jnp.sum(policy.score(params, rows, {}).logp)
    # Without attention's own [T, T] scores, which the plain kernel keeps whole.
    attention = 2 * self.T ** 2 * 4
    used = self._temp_bytes(jax.grad(total), params, rows)
    assert used < self.LIMIT + 4 * attention, used
