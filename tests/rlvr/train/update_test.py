"""One optimiser step: only sums, so layouts agree; and the steps that must not be taken."""

import functools

import direct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import optimizer
from rlvr import testing
from rlvr import types
from rlvr.host import compiles
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode
from rlvr.train import prepare
from rlvr.train import update

ONE_ROW = direct.make_layout(num_cells=8, rows=1, prompts=1)  # every row its own microbatch


def reward_as_term(out, cell, knobs):
  """A loss whose value on a row's tokens is the row's reward."""
  del knobs
  return cell.reward[:, None] + 0.0 * out.logp, {'twice': 2 * cell.reward[:, None] + 0 * out.logp}


class TestSums:

  def test_microbatches_divide_by_the_global_count(self):
    # Fault 28: one token of loss 4 and three of loss 0: the mean is 1, not 2.
    rollout = direct.make_rollout([[4], [0]], lengths=[1, 3])
    for weigh, expected in ((aggregate.token_mean, 1.0), (
        functools.partial(aggregate.seq_sum_constant, constant=4.0), 0.5)):
      recipe = direct.make_recipe(loss=reward_as_term, weigh=weigh, advantage_only=False)
      _, metrics, _ = direct.gradient(rollout, recipe, ONE_ROW)
      assert metrics['pg/loss'] == metrics['loss'] == pytest.approx(expected)
      assert metrics['twice'] == pytest.approx(2.0)  # sum of w m over sum of w

  def test_masked_tokens_leave_the_divisor_too(self):
    # Fault 29: 30 tokens, 5 of them masked, loss 1 each.
    kept = [[1] * 10, [1] * 5 + [0] * 5, [1] * 10]
    rollout = direct.make_rollout([[1], [1], [1]], masks=kept)
    recipe = direct.make_recipe(loss=reward_as_term, advantage_only=False)
    layout = direct.make_layout(num_cells=3, rows=1, prompts=1, spans=(10,))
    assert direct.gradient(rollout, recipe, layout)[1]['loss'] == pytest.approx(1.0)
    empty = rollout.replace(mask=jnp.zeros_like(rollout.mask))
    moved, metrics, _ = direct.gradient(empty, recipe, layout)
    assert metrics['loss'] == 0.0 and metrics['skipped'] == 1.0 and not moved.any()
    assert all(np.isfinite(value) for value in metrics.values()), metrics

  def test_interleaved_groups(self):
    # Fault 13: prompts a b a b with rewards 1 0 1 0: each group is all equal.
    rollout = direct.make_rollout([[1, 0, 1, 0]], prompts=[[1], [2]]).replace(
        group=jnp.array([0, 1, 0, 1]), prompt=jnp.array([0, 1, 0, 1]))
    recipe = direct.make_recipe(advantage=advantages.grpo, advantage_only=False)
    for layout in (direct.make_layout(rows=2, prompts=1), direct.make_layout(num_cells=1)):
      moved, _, out = direct.gradient(rollout, recipe, layout)
      np.testing.assert_array_equal(out.advantages, 0.0)
      assert not moved.any()
    # And mixed ones keep their own statistics in whichever cell they are.
    mixed = rollout.replace(columns=jnp.array([[1.0], [1], [0], [1]]))
    _, _, out = direct.gradient(mixed, recipe, direct.make_layout(rows=2, prompts=1))
    np.testing.assert_allclose(out.advantages[:, 0], [1, 0, -1, 0], atol=1e-5)

  def test_tokens_of_the_environment_stay_untrained(self):
    # Fault 8: [gen gen obs obs gen].
    rollout = direct.make_rollout([[1, 0]], masks=[[1, 1, 0, 0, 1], [1, 0, 1, 1]])
    recipe = direct.make_recipe(loss=losses.surrogate)
    moved, _, _ = direct.gradient(rollout, recipe, direct.make_layout())
    np.testing.assert_array_equal(
        moved != 0, np.array([[1, 1, 0, 0, 1], [1, 0, 1, 1, 0]], bool))

  def test_what_stands_at_weight_zero_cannot_matter(self):
    def hostile(out, cell, knobs):
      values, metrics = losses.policy_gradient(out, cell, knobs)
      return jnp.where(cell.mask != 0, values, jnp.nan), metrics

    rollout = direct.make_rollout([[1, 0]], masks=[[1, 0, 1], [1, 1]])
    plain, plain_metrics, _ = direct.gradient(
        rollout, direct.make_recipe(), direct.make_layout())
    moved, metrics, _ = direct.gradient(
        rollout, direct.make_recipe(loss=hostile), direct.make_layout())
    np.testing.assert_array_equal(moved, plain)
    assert metrics['skipped'] == 0.0
    assert metrics == plain_metrics

  def test_terms_add_by_their_coefficients_without_a_retrace(self):
    term = lambda loss: prepare.Term(loss, masks.policy_tokens, aggregate.token_mean)
    terms = {'pg': term(losses.policy_gradient), 'plain': term(reward_as_term)}
    recipe = direct.make_recipe(terms=terms, advantage_only=False)
    rollout, layout = direct.make_rollout([[1, 0], [3, 1]]), direct.make_layout()
    state = direct.make_state(rollout, knobs={'coef_pg': 1.0, 'coef_plain': 1.0})
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))(rollout, state)
    counter = compiles.Counter()
    step = jax.jit(counter.wrap(update.make_update(
        direct.POLICY, terms, optax.sgd(1.0), layout)))
    moved = {}
    for coef in (1.0, -2.0, 0.0):
      knobs = {'coef_pg': jnp.float32(coef), 'coef_plain': jnp.float32(0.5)}
      new, metrics = step(state.replace(knobs=knobs), batch)
      moved[coef] = np.asarray(state.params['logp'] - new.params['logp'])
      np.testing.assert_allclose(
          metrics['loss'], coef * metrics['pg/loss'] + 0.5 * 1.25, rtol=1e-5)
    assert counter.count == 1
    np.testing.assert_allclose(moved[-2.0], -2 * moved[1.0], atol=1e-6)
    assert np.abs(moved[1.0]).max() > 0 and not moved[0.0].any()


class TestNotTaken:

  def _run(self, rollout, loss=losses.policy_gradient):
    recipe, layout = direct.make_recipe(loss=loss), direct.make_layout()
    optimiser = optax.adam(0.1)
    state = direct.make_state(rollout, optimizer=optimiser)
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))(rollout, state)
    step = jax.jit(update.make_update(direct.POLICY, recipe.terms, optimiser, layout))
    warm, metrics = step(state, batch)
    return step, state, warm, metrics

  def _same(self, new, old):
    jax.tree.map(np.testing.assert_array_equal, (new.params, new.opt_state),
                 (old.params, old.opt_state))

  def test_no_row_can_act(self):
    _, state, new, metrics = self._run(direct.make_rollout([[1, 1], [0, 0]]))
    self._same(new, state)
    assert float(metrics['skipped']) == 1.0 and float(metrics['loss']) == 0.0

  def test_the_gradient_is_not_finite(self):
    def broken(out, cell, knobs):
      values, metrics = losses.policy_gradient(out, cell, knobs)
      return values / (cell.reward[:, None] - 0.5 - 0.5 * knobs['bad']), metrics

    rollout = direct.make_rollout([[1, 0]])
    recipe, layout = direct.make_recipe(loss=broken), direct.make_layout()
    optimiser = optax.adam(0.1)
    state = direct.make_state(rollout, optimizer=optimiser, knobs={'coef_pg': 1.0, 'bad': 0.0})
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))(rollout, state)
    step = jax.jit(update.make_update(direct.POLICY, recipe.terms, optimiser, layout))
    warm, metrics = step(state, batch)
    assert float(metrics['skipped']) == 0.0
    assert not np.array_equal(warm.params['logp'], state.params['logp'])
    bad = warm.replace(knobs=warm.knobs | {'bad': jnp.float32(1.0)})  # divides by 0
    new, metrics = step(bad, batch)
    self._same(new, warm)
    assert float(metrics['skipped']) == 1.0 and not np.isfinite(metrics['grad_norm'])


class TestPrecision:

  def test_small_steps_move_f32_master_weights(self):
    # Fault 51: in bf16, 1 + 1e-6 is 1, a hundred times over.
    low = lambda params, rows, knobs, *, anchors=None: direct.score(
        jax.tree.map(lambda w: w.astype(jnp.bfloat16).astype(jnp.float32), params), rows, knobs)
    policy = direct.POLICY._replace(score=low)
    rollout, layout, recipe = direct.make_rollout([[1, 0]]), direct.make_layout(), (
        direct.make_recipe())
    optimiser = optimizer.adam(learning_rate=1e-6)
    state = direct.make_state(rollout, optimizer=optimiser)
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, policy, layout))(rollout, state)
    step = update.make_update(policy, recipe.terms, optimiser, layout)
    many = jax.jit(lambda state: jax.lax.fori_loop(0, 100, lambda _, s: step(s, batch)[0], state))
    new = many(state)
    moved = np.asarray(new.params['logp'] - state.params['logp'])
    assert new.params['logp'].dtype == jnp.float32
    np.testing.assert_allclose(np.abs(moved), 1e-4, rtol=0.05)
    np.testing.assert_array_equal(np.sign(moved), [[1, 1], [-1, -1]])  # towards the reward
    bf16 = jnp.float32(1.0).astype(jnp.bfloat16)
    assert bf16 + jnp.bfloat16(1e-6) == bf16


@functools.cache
def transformer_case():
  """A real policy, three terms, ragged and dead groups; (policy, recipe, rollout, state)."""
  config = tiny.config(vocab_size=11)
  policy = transformer.make_policy(config, remat='none')  # compiles faster
  params = jax.jit(policy.init)(jax.random.key(0))
  reference = jax.jit(policy.init)(jax.random.key(1))
  rollout = testing.make_rollout(
      [[1, 0, 1], [1, 1], [0, 1, 0, 0], [2, 1]], lengths=[5, 2, 8, 3, 3, 1, 4, 6, 0, 7, 2],
      max_tokens=8, padding=1, prompts=[[1, 2, 3], [4], [5, 6], [7, 8, 9, 10]])
  rollout = rollout.replace(old_logp=None, ref_logp=None)
  term = lambda loss: prepare.Term(loss, masks.policy_tokens, aggregate.seq_mean_token_mean)
  recipe = direct.make_recipe(
      advantage=advantages.grpo, advantage_only=False, score_old=True, score_ref=True, terms={
          'pg': term(losses.surrogate), 'kl': term(losses.kl_loss),
          'entropy': term(losses.entropy_bonus)})
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optax.sgd(0.5).init(params),
      anchors={'ref': reference}, method={}, key=jax.random.key(0),
      knobs={f'coef_{name}': jnp.float32(coef)
             for name, coef in (('pg', 1.0), ('kl', 0.3), ('entropy', 0.1))})
  return policy, recipe, rollout, state


@functools.lru_cache
def stepped(layout):
  policy, recipe, rollout, state = transformer_case()
  (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, policy, layout))(rollout, state)
  step = jax.jit(update.make_update(policy, recipe.terms, optax.sgd(0.5), layout))
  return batch, step, *step(state, batch)


FULL = direct.make_layout(num_cells=1, rows=12, prompts=4, spans=(8,))


class TestWholeStep:

  @pytest.mark.parametrize('layout', [
      direct.make_layout(num_cells=4, rows=4, prompts=1, spans=(4, 8)),
      direct.make_layout(devices=2, num_cells=2, rows=4, prompts=1, spans=(8,)),
  ], ids=['cells', 'devices'])
  def test_layouts_agree(self, layout):
    _, _, whole, whole_metrics = stepped(FULL)
    batch, _, split, split_metrics = stepped(layout)
    assert int(jnp.sum(batch.used)) == 4
    _, _, _, state = transformer_case()
    moved = jax.tree.map(lambda new, old: float(jnp.abs(new - old).max()),
                         whole.params, state.params)
    assert max(jax.tree.leaves(moved)) > 1e-2  # a thousand times what is allowed below
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
                 split.params, whole.params)
    assert set(split_metrics) == set(whole_metrics)
    for name, value in whole_metrics.items():
      np.testing.assert_allclose(split_metrics[name], value, rtol=2e-5, atol=1e-6, err_msg=name)

  def test_the_step_is_down_the_gradient_of_the_reported_loss(self):
    batch, step, new, metrics = stepped(FULL)
    _, _, _, state = transformer_case()
    norm = float(metrics['grad_norm'])
    grads = jax.tree.map(lambda a, b: (a - b) / 0.5, state.params, new.params)
    np.testing.assert_allclose(float(optax.tree.norm(grads)), norm, rtol=1e-3)
    # Finite differences of the whole objective, along the gradient and along noise.
    rng = np.random.default_rng(0)
    noise = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape), jnp.float32), grads)
    for direction in (grads, noise):
      length = float(optax.tree.norm(direction))
      at = lambda eps, d=direction, n=length: float(step(state.replace(params=jax.tree.map(
          lambda w, x: w + eps / n * x, state.params, d)), batch)[1]['loss'])
      slope = (at(3e-3) - at(-3e-3)) / 6e-3
      np.testing.assert_allclose(
          slope, float(optax.tree.vdot(grads, direction)) / length, rtol=0.02, atol=0.003 * norm)

  def test_metrics_are_means_over_tokens(self):
    policy, _, rollout, state = transformer_case()
    _, _, _, metrics = stepped(FULL)
    out = jax.jit(lambda p: policy.score(p, rollout, {}))(state.params)
    mask = np.asarray(rollout.mask) * np.asarray(rollout.where)[:, None]
    np.testing.assert_allclose(
        metrics['entropy'], (mask * out.entropy).sum() / mask.sum(), rtol=1e-5)
    np.testing.assert_allclose(metrics['ratio'], 1.0, rtol=1e-5)
    gap = np.abs(np.asarray(out.logp - rollout.rollout_logp))
    np.testing.assert_allclose(
        metrics['mismatch_abs'], (mask * gap).sum() / mask.sum(), rtol=1e-4)

  def test_what_is_sampled_has_no_mismatch(self):
    policy, recipe, rollout, state = transformer_case()
    fresh, _ = decode.grow(decode.begin(rollout.prompts, 12, 8), jnp.full(4, 3))
    sampled, _ = jax.jit(lambda params, rollout: decode.sample(
        params, rollout, jax.random.key(0), {}, policy=policy, slots=4, stop_ids=(2,)))(
            state.params, fresh)
    reward = (sampled.tokens[:, :1] % 2).astype(jnp.float32)
    sampled = sampled.replace(columns=reward, graded=sampled.where)
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, policy, FULL))(sampled, state)
    step = jax.jit(update.make_update(policy, recipe.terms, optax.sgd(0.5), FULL))
    _, metrics = step(state, batch)
    assert float(metrics['mismatch_abs']) < 1e-5
    assert float(metrics['mismatch_ratio']) == pytest.approx(1.0, abs=1e-5)
