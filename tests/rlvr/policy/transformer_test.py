"""The decoder over two blocks against whole sequences, padding, and its own cache."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import types
from rlvr.policy import config as config_lib
from rlvr.policy import decoding
from rlvr.policy import layers
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode

VOCAB = 17
SHAPE = dict(vocab_size=VOCAB, num_layers=2, d_model=12, num_heads=4, num_kv_heads=2, head_dim=6,
             d_ff=20)
LLAMA3 = config_lib.RopeScaling(kind='llama3', factor=8.0, original_max_positions=16)
CONFIGS = {
    'llama': config_lib.ModelConfig(family='llama', rope_scaling=LLAMA3, **SHAPE),
    'qwen2': config_lib.ModelConfig(
        family='qwen2', qkv_bias=True, tie_embeddings=True, rope_theta=1e6, **SHAPE),
    'qwen3': config_lib.ModelConfig(family='qwen3', qk_norm=True, **SHAPE),
}
PROMPT_LENGTH = np.array([3, 5, 1], np.int32)
PROMPT = np.array([1, 0, 1, 2, 1], np.int32)
LENGTH = np.array([4, 2, 3, 4, 0], np.int32)


@functools.cache
def make_params(name):
  """Random params with every bias and norm away from its neutral start."""
  params = jax.jit(functools.partial(transformer.init, config=CONFIGS[name]))(jax.random.key(0))
  rng = np.random.default_rng(1)
  return jax.tree.map(lambda w: w + 0.1 * rng.normal(size=w.shape).astype(np.float32), params)


def make_rows(width=4, length=5, seed=0):
  rng = np.random.default_rng(seed)
  prompts = types.Prompts(
      tokens=jnp.asarray(rng.integers(1, VOCAB, (3, length)), jnp.int32),
      length=jnp.asarray(PROMPT_LENGTH), id=jnp.arange(3))
  rollout = decode.begin(prompts, len(PROMPT), width)
  return rollout.replace(
      prompt=jnp.asarray(PROMPT), group=jnp.asarray(PROMPT), where=jnp.ones(len(PROMPT), bool),
      tokens=jnp.asarray(rng.integers(1, VOCAB, (len(PROMPT), width)), jnp.int32),
      valid=jnp.arange(width)[None] < LENGTH[:, None],
      temperature=jnp.array([1.0, 0.7, 1.3, 1.0, 1.0]))


@functools.partial(jax.jit, static_argnames=('config', 'remat', 'dtype'))
def score(params, rows, *, config, remat='full', dtype=jnp.float32):
  policy = transformer.make_policy(config, remat=remat, compute_dtype=dtype, head_chunk=7)
  return policy.score(params, rows, {})


def on_valid(x, rows):
  return np.where(rows.valid, np.asarray(x, np.float32), 0.0)


def whole_logp(params, config, rows):
  """Log-probs from plain full passes over each row's own sequence, one by one."""
  forward = jax.jit(lambda tokens: transformer.logits(params, config, tokens))
  out = np.zeros(rows.tokens.shape, np.float32)
  for n, p in enumerate(PROMPT):
    prompt = np.asarray(rows.prompts.tokens)[p, :PROMPT_LENGTH[p]]
    sequence = np.concatenate([prompt, np.asarray(rows.tokens)[n]])
    padded = np.pad(sequence, (0, 10 - len(sequence)))  # one compiled width
    logits = forward(padded[None])[0] / rows.temperature[n]
    logp = jax.nn.log_softmax(logits[len(prompt) - 1:len(sequence) - 1], axis=-1)
    out[n] = np.asarray(logp)[np.arange(len(sequence) - len(prompt)), rows.tokens[n]]
  return out


class TestScore:

  @pytest.mark.parametrize('name', CONFIGS)
  def test_is_the_full_forward_pass_of_each_sequence(self, name):
    rows, params = make_rows(), make_params(name)
    out = score(params, rows, config=CONFIGS[name])
    expected = whole_logp(params, CONFIGS[name], rows)
    np.testing.assert_allclose(on_valid(out.logp, rows), on_valid(expected, rows), atol=2e-5)
    assert on_valid(out.entropy, rows)[rows.valid].min() > 0

  def test_no_prompt_token_is_multiplied_twice(self):
    rows, seen = make_rows(), []

    def matmul(x, w):
      seen.append(x.size // x.shape[-1])
      return layers.dense(x, w)

    policy = transformer.make_policy(CONFIGS['llama'], matmul=matmul)
    jax.eval_shape(lambda params: policy.score(params, rows, {}), make_params('llama'))
    # Three prompts once, five rows, whose last token predicts nothing.
    assert seen and set(seen) == {3 * 5 + 5 * 3}

  def test_another_attention_takes_the_place_of_ours(self):
    attention = lambda q, *rest: jnp.zeros_like(q)
    policy = transformer.make_policy(CONFIGS['llama'], attention=attention)
    params, rows = make_params('llama'), make_rows()
    other = jax.jit(lambda params: policy.score(params, rows, {}).logp)(params)
    ours = score(params, rows, config=CONFIGS['llama']).logp
    assert np.abs(on_valid(other - ours, rows)).max() > 1e-3

  @pytest.mark.parametrize('pads', [0, 3, 7])
  def test_padding_does_not_move_log_probs(self, pads):
    # Fault 3: the same prompt and response tokens, more padding in both blocks.
    rows, params = make_rows(), make_params('llama')
    base = on_valid(score(params, rows, config=CONFIGS['llama']).logp, rows)
    pad = lambda x, value=0: jnp.pad(x, ((0, 0), (0, pads)), constant_values=value)
    per_token = ('tokens', 'valid', 'mask', 'rollout_logp', 'version')
    wide = rows.replace(
        prompts=rows.prompts.replace(tokens=pad(rows.prompts.tokens)),
        **{name: pad(getattr(rows, name)) for name in per_token})
    out = score(params, wide, config=CONFIGS['llama'])
    np.testing.assert_allclose(on_valid(out.logp, wide)[:, :4], base, atol=1e-5)

  def test_ids_in_padding_do_not_matter(self):
    # Fault 4: other ids beyond the prompts' and the responses' lengths.
    rows, params = make_rows(), make_params('qwen3')
    in_prompt = jnp.arange(5)[None] < PROMPT_LENGTH[:, None]
    logps = []
    for pad_id in (0, VOCAB - 1):
      filled = rows.replace(
          prompts=rows.prompts.replace(tokens=jnp.where(in_prompt, rows.prompts.tokens, pad_id)),
          tokens=jnp.where(rows.valid, rows.tokens, pad_id))
      logps.append(on_valid(score(params, filled, config=CONFIGS['qwen3']).logp, rows))
    np.testing.assert_array_equal(*logps)

  def test_an_id_outside_the_vocabulary_in_padding(self):
    # Fault 4's own number, 77, which this vocabulary does not even have.
    rows, params = make_rows(), make_params('llama')
    base = on_valid(score(params, rows, config=CONFIGS['llama']).logp, rows)
    filled = rows.replace(tokens=jnp.where(rows.valid, rows.tokens, 77))
    out = on_valid(score(params, filled, config=CONFIGS['llama']).logp, rows)
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(out, base)

  def test_a_shared_prompt_is_as_good_as_its_copies(self):
    rows, params = make_rows(), make_params('qwen2')
    copies = jax.tree.map(lambda x: x[PROMPT], rows.prompts)
    replicated = rows.replace(prompts=copies, prompt=jnp.arange(len(PROMPT)))
    weight = jnp.asarray(np.random.default_rng(2).normal(size=rows.tokens.shape), jnp.float32)

    def total(params, rows):
      out = score(params, rows, config=CONFIGS['qwen2'])
      return jnp.sum(jnp.where(rows.valid, weight * (out.logp + 0.3 * out.entropy), 0.0))

    run = jax.jit(jax.value_and_grad(total))
    (value, grads), (expected, expected_grads) = run(params, rows), run(params, replicated)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), grads, expected_grads)

  def test_what_is_kept_for_the_gradient_changes_no_number(self):
    rows, params = make_rows(), make_params('llama')
    results = []
    for remat in transformer.REMAT:
      total = lambda p, remat=remat: jnp.sum(jnp.where(
          rows.valid, score(p, rows, config=CONFIGS['llama'], remat=remat).logp, 0.0))
      results.append(jax.jit(jax.value_and_grad(total))(params))
    for value, grads in results[1:]:
      np.testing.assert_allclose(value, results[0][0], rtol=1e-6)
      jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), grads, results[0][1])

  def test_one_token_wide(self):
    rows, params = make_rows(), make_params('llama')
    narrow = rows.replace(**{name: getattr(rows, name)[:, :1] for name in (
        'tokens', 'valid', 'mask', 'rollout_logp', 'version')})
    base = score(params, rows, config=CONFIGS['llama']).logp[:, :1]
    np.testing.assert_allclose(
        score(params, narrow, config=CONFIGS['llama']).logp, base, atol=1e-5)

  def test_bfloat16_is_close_and_results_are_f32(self):
    rows, params = make_rows(), make_params('llama')
    exact = score(params, rows, config=CONFIGS['llama'])
    low = score(params, rows, config=CONFIGS['llama'], dtype=jnp.bfloat16)
    assert low.logp.dtype == low.entropy.dtype == jnp.float32
    np.testing.assert_allclose(on_valid(low.logp, rows), on_valid(exact.logp, rows), atol=0.25)
    assert np.abs(on_valid(low.logp - exact.logp, rows)).max() > 0  # it was in bf16

  def test_wrong_remat_is_named(self):
    with pytest.raises(ValueError, match="remat is 'some'; expected one of none, dots, full"):
      transformer.make_policy(CONFIGS['llama'], remat='some')


class TestHidden:

  def test_is_what_the_head_reads(self):
    """With a tied head: logp = log softmax(hidden . embed / temperature) at the token."""
    params, rows = make_params('qwen2'), make_rows()
    out = score(params, rows, config=CONFIGS['qwen2'])
    logits = np.asarray(out.hidden) @ np.asarray(params['embed']).T
    logits /= np.asarray(rows.temperature)[:, None, None]
    logp = jax.nn.log_softmax(logits, axis=-1)
    picked = np.take_along_axis(np.asarray(logp), np.asarray(rows.tokens)[..., None], -1)[..., 0]
    np.testing.assert_allclose(on_valid(picked, rows), on_valid(out.logp, rows), atol=1e-5)

  def test_costs_nothing_where_nobody_reads_it(self):
    params, rows = make_params('qwen2'), make_rows()
    policy = transformer.make_policy(CONFIGS['qwen2'], head_chunk=7)

    def cost(strip):
      def loss(params):
        out = policy.score(params, rows, {})
        out = out.replace(hidden=None) if strip else out
        return jnp.sum(out.logp), out.entropy
      compiled = jax.jit(jax.grad(loss, has_aux=True)).lower(params).compile()
      return compiled.cost_analysis()['flops'], compiled.memory_analysis().temp_size_in_bytes

    assert cost(strip=False) == cost(strip=True)


class TestDecode:

  @pytest.mark.parametrize('name', CONFIGS)
  def test_steps_reproduce_the_scores(self, name):
    rows, params = make_rows(), make_params(name)
    policy = transformer.make_policy(CONFIGS[name])
    step = jax.jit(policy.decode_step)
    # Two slots a block; the second block's prompt comes first in `prompts`.
    block_prompt, slot_rows = jnp.array([1, 0]), np.array([0, 2, 1, 1])
    prefix = jax.jit(policy.prefill)(params, rows.prompts)
    cache = policy.init_cache(prefix, 4, 4)
    logits = prefix.logits[jnp.repeat(block_prompt, 2)]
    expected = whole_logp(params, CONFIGS[name], rows)[slot_rows]
    for t in range(4):
      logp = jax.nn.log_softmax(logits / rows.temperature[slot_rows][:, None])
      tokens = rows.tokens[slot_rows, t]
      np.testing.assert_allclose(logp[jnp.arange(4), tokens], expected[:, t], atol=2e-5)
      logits, cache = step(params, prefix, cache, block_prompt, tokens, jnp.full(4, t))

  def test_slots_may_stand_at_different_positions(self):
    rows, params = make_rows(), make_params('llama')
    policy = transformer.make_policy(CONFIGS['llama'])
    step = jax.jit(policy.decode_step)
    prefix = jax.jit(policy.prefill)(params, rows.prompts)
    block_prompt = jnp.array([1, 2])
    rowed = np.array([0, 3])
    fill = lambda cache, t, tokens: step(params, prefix, cache, block_prompt, tokens, t)
    cache = policy.init_cache(prefix, 2, 4)
    # Slot 0 first serves another row for three tokens, which must leave no trace.
    for t in range(3):
      _, cache = fill(cache, jnp.array([t, t]), rows.tokens[jnp.array([2, 3]), t])
    logits, cache = fill(cache, jnp.array([0, 3]), rows.tokens[rowed, jnp.array([0, 3])])
    logp = jax.nn.log_softmax(logits[0])[rows.tokens[0, 1]]
    np.testing.assert_allclose(
        logp, whole_logp(params, CONFIGS['llama'], rows)[0, 1], atol=2e-5)

  def test_live_spans_cover_every_position(self):
    assert decoding.live_spans(5) == [5]
    assert decoding.live_spans(200) == [64, 128, 200]
    assert decoding.live_spans(256) == [64, 128, 256]


class TestInit:

  def test_same_key_same_params_f32_and_heads_start_near_uniform(self):
    config = tiny.config(vocab_size=VOCAB)
    init = jax.jit(functools.partial(transformer.init, config=config))
    first, again, other = (init(jax.random.key(k)) for k in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first['embed'], other['embed'])
    assert {x.dtype for x in jax.tree.leaves(first)} == {jnp.dtype('float32')}
    rows = make_rows()
    out = score(first, rows, config=config)
    assert on_valid(out.entropy, rows)[rows.valid].mean() > 0.7 * np.log(VOCAB)
