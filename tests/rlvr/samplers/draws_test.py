"""Further draws at each prefix: they change no token, and are of the sampler's distribution."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import testing
from rlvr import types
from rlvr.policy import heads
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode
from rlvr.samplers import draws

VOCAB, WIDTH, NUM = 13, 6, 5
POLICY = transformer.make_policy(
    dataclasses.replace(tiny.config(vocab_size=VOCAB), tie_embeddings=False))


@functools.partial(jax.jit, static_argnums=1)
def sample(params, num_draws):
  prompts = types.Prompts(tokens=jnp.array([[1, 3, 4], [6, 7, 0]]), length=jnp.array([3, 2]),
                          id=jnp.arange(2))
  rollout, _ = decode.grow(
      decode.begin(prompts, 4, WIDTH, num_draws=num_draws), jnp.array([2, 2]))
  return decode.sample(params, rollout, jax.random.key(3), {}, policy=POLICY, slots=2,
                       stop_ids=(2,))[0]


class TestInTheSampler:

  def test_no_token_changes_and_their_scores_are_the_trainers(self):
    params = jax.jit(POLICY.init)(jax.random.key(0))
    plain, more = sample(params, 0), sample(params, NUM)
    assert not plain.extras and set(more.extras) == {draws.IDS, draws.LOGP}
    np.testing.assert_array_equal(more.tokens, plain.tokens)
    np.testing.assert_array_equal(more.rollout_logp, plain.rollout_logp)
    cell = testing.make_cell(
        jnp.zeros(4), mask=more.mask, prompts=more.prompts, prompt=more.prompt,
        tokens=more.tokens, valid=more.valid, query_ids=more.extras[draws.IDS])
    scored = jax.jit(lambda p, c: POLICY.score(p, c, {}).query_logp)(params, cell)
    valid = np.asarray(more.valid)
    assert scored.shape == (4, WIDTH, NUM) and valid.any()
    np.testing.assert_allclose(
        np.asarray(more.extras[draws.LOGP])[valid], np.asarray(scored)[valid], atol=1e-5)
    assert (np.asarray(more.extras[draws.LOGP])[~valid] == 0).all()


class TestRecord:

  def test_frequencies(self):
    num, probs = 4000, np.array([.5, .3, .2])
    logits = jnp.log(jnp.asarray(probs))[None] + 7.
    extras = draws.empty(1, 1, num)
    extras = jax.jit(lambda key: draws.record(
        extras, lambda array, values: array.at[:, 0].set(values), logits, key[None],
        jnp.ones(1), heads.NO_TRUNCATION))(jax.random.key(1))
    ids = np.asarray(extras[draws.IDS])[0, 0]
    np.testing.assert_allclose(np.bincount(ids, minlength=3) / num, probs, atol=.03)
    np.testing.assert_allclose(extras[draws.LOGP][0, 0], np.log(probs)[ids], rtol=1e-5)

  def test_without_draws_nothing_happens(self):
    assert draws.empty(3, 4, 0) == {}
    extras = {'step': jnp.ones(1)}
    assert draws.record(extras, None, None, None, None, heads.NO_TRUNCATION) is extras
