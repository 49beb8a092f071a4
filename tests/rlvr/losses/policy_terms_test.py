"""The surrogate and REINFORCE: worked losses and gradients of GRPO, Dr. GRPO, DAPO, RLOO."""

import functools

import chex
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from rlvr import advantages
from rlvr import aggregate
from rlvr import losses
from rlvr import testing
from rlvr.losses import clips
from rlvr.losses import kl
from rlvr.losses import ratios

MASK = jnp.array([[1., 1, 0], [1, 1, 1]])
OLD = jnp.full((2, 3), -1.)
RHO = jnp.array([[1.5, 1.1, jnp.nan], [.7, 1.1, 1.5]])
MODES = {
    'token_mean': aggregate.token_mean,
    'seq_mean_token_mean': aggregate.seq_mean_token_mean,
    'seq_sum_constant': functools.partial(aggregate.seq_sum_constant, constant=10.),
}


def _value_and_grad(part, cell, logp):
  def loss(logp):
    return testing.objective(part(testing.make_output(logp), cell, {})[0], cell.weights['loss'])
  return jax.jit(jax.value_and_grad(loss))(logp)


@jax.jit
def _weighed(adv, mask, old, logp, weights):
  cell = testing.make_cell(adv, mask=mask, old_logp=old)
  return testing.objective(losses.surrogate(testing.make_output(logp), cell, {})[0], weights)


class SurrogateTest(chex.TestCase):

  def test_worked(self):
    for name, expected in (
        ('token_mean', .22), ('seq_mean_token_mean', -.0083333), ('seq_sum_constant', .055)):
      cell = testing.make_cell([1., -1], mask=MASK, old_logp=OLD, weigh=MODES[name])
      terms, metrics = losses.surrogate(testing.make_output(OLD + jnp.log(RHO)), cell, {})
      np.testing.assert_allclose(terms, [[-1.2, -1.1, 0], [.8, 1.1, 1.5]], rtol=1e-5)
      np.testing.assert_array_equal(metrics['clip_share'], [[1, 0, 0], [1, 0, 0]])
      value, grad = _value_and_grad(losses.surrogate, cell, OLD + jnp.log(RHO))
      np.testing.assert_allclose(value, expected, rtol=2e-5)
      if name == 'token_mean':
        np.testing.assert_allclose(grad, [[0, -.22, 0], [0, .22, .3]], rtol=1e-5)

  def test_on_policy_the_gradient_is_minus_advantage_times_weight(self):
    adv = jnp.array([[1., -2, 7], [.5, 3, -1]])
    for weigh in MODES.values():
      for old in (OLD, None):
        cell = testing.make_cell(adv, mask=MASK, old_logp=old, ref_logp=OLD, weigh=weigh)
        _, grad = _value_and_grad(losses.surrogate, cell, OLD)
        np.testing.assert_allclose(grad, -adv * cell.weights['loss'], rtol=1e-6)
        anchor = functools.partial(losses.kl_loss, estimator=kl.k3)
        value, grad = _value_and_grad(anchor, cell, OLD)
        np.testing.assert_array_equal(grad, 0.0)
        assert value == 0

  def test_gradient_matches_finite_differences_off_the_kinks(self):
    """In all three modes, with the dual clip and the k3 anchor on."""
    rng = np.random.default_rng(1)
    logp = jnp.asarray(rng.uniform(-2, -.5, (4, 3)), jnp.float32)
    rho = jnp.array([[1.1, .5, 1.5], [.9, 1.6, .6], [4., 2., 1.], [.3, 1.05, 3.5]])
    mask = jnp.ones((4, 3)).at[1, 2].set(0.)
    clip = functools.partial(clips.ppo_clip, high=.28, dual=3.)
    for weigh in MODES.values():
      cell = testing.make_cell(
          jnp.array([1., -1, -2, .5]), mask=mask, old_logp=logp - jnp.log(rho),
          ref_logp=logp + .3, weigh=weigh)

      def loss(logp, cell=cell):
        out = testing.make_output(logp)
        terms = losses.surrogate(out, cell, {}, clip=clip)[0]
        terms += .04 * losses.kl_loss(out, cell, {}, estimator=kl.k3)[0]
        return testing.objective(terms, cell.weights['loss'])

      loss = jax.jit(loss)
      grad = jax.grad(loss)(logp)
      step = .005
      for index in np.ndindex(4, 3):
        numeric = (loss(logp.at[index].add(step)) - loss(logp.at[index].add(-step))) / (2 * step)
        np.testing.assert_allclose(grad[index], numeric, rtol=5e-3, atol=2e-4)

  def test_correction_scales_terms_and_carries_no_gradient(self):
    weight = jnp.array([[2., .5, jnp.nan], [1, 0, 3]])
    plain = testing.make_cell([1., -1], mask=MASK, old_logp=OLD)
    scaled = testing.make_cell([1., -1], mask=MASK, old_logp=OLD, correction=weight)
    for part in (losses.surrogate, losses.policy_gradient):
      a = part(testing.make_output(OLD + jnp.log(RHO)), plain, {})[0]
      b = part(testing.make_output(OLD + jnp.log(RHO)), scaled, {})[0]
      np.testing.assert_allclose(b, jnp.where(MASK != 0, a * weight, 0), rtol=1e-6)
      _, grad = _value_and_grad(part, plain, OLD)
      _, corrected = _value_and_grad(part, scaled, OLD)
      np.testing.assert_allclose(corrected, jnp.where(MASK != 0, grad * weight, 0), rtol=1e-6)

  def test_sign(self):
    """A token with A > 0 never has a positive gradient."""
    rho = jnp.exp(jnp.linspace(-3., 3., 12)).reshape(1, 12)
    cell = testing.make_cell([1.], mask=jnp.ones((1, 12)), old_logp=jnp.zeros((1, 12)))
    _, grad = _value_and_grad(losses.surrogate, cell, jnp.log(rho))
    assert (grad <= 0).all()

  def test_fault_27_overflow_times_zero_advantage(self):
    """fault 27: log-ratio 100 at advantage 0 gives loss 0 and gradient 0."""
    cell = testing.make_cell([0.], mask=jnp.ones((1, 1)), old_logp=jnp.full((1, 1), -101.))
    for name, ratio in ratios.RATIOS.items():
      part = functools.partial(losses.surrogate, ratio=ratio)
      value, grad = _value_and_grad(part, cell, jnp.full((1, 1), -1.))
      assert value == 0 and grad == 0, name

  def test_fault_14_the_loss_is_finite(self):
    """fault 14: rewards [1, NaN x 7] give loss 0 and gradient 0."""
    rollout = testing.make_rollout([[1] + [None] * 7])
    for part in (advantages.grpo, advantages.rloo):
      cell = testing.make_cell(part(rollout), mask=rollout.mask)
      value, grad = _value_and_grad(losses.surrogate, cell, rollout.old_logp)
      assert value == 0
      np.testing.assert_array_equal(grad, 0.0)

  def test_padding_columns_change_no_bit(self):
    """More columns leave loss and gradient bitwise equal (Dr. GRPO)."""
    weigh = functools.partial(aggregate.seq_sum_constant, constant=4.)
    results = []
    for extra in (0, 5):
      pad = lambda x, fill, extra=extra: jnp.pad(x, ((0, 0), (0, extra)), constant_values=fill)
      cell = testing.make_cell([1., -1], mask=pad(MASK, 0), old_logp=pad(OLD, jnp.nan), weigh=weigh)
      value, grad = _value_and_grad(losses.surrogate, cell, pad(OLD + jnp.log(RHO), jnp.nan))
      results.append((value, grad[:, :3]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])

  @hypothesis.settings(max_examples=25, deadline=None)
  @hypothesis.given(st.integers(0, 2**31 - 1), st.permutations(range(4)))
  def test_fault_28_micro_batches_add_up(self, seed, order):
    """fault 28: parts weighed with the global divisors sum to the whole, however split."""
    rng = np.random.default_rng(seed)
    mask = (rng.uniform(size=(4, 3)) < .6).astype(np.float32)
    old, logp = rng.uniform(-3, 0, (2, 4, 3)).astype(np.float32)
    adv = rng.normal(size=(4, 3)).astype(np.float32)
    order = np.array(order)
    for weigh in MODES.values():
      weights = np.asarray(weigh(mask, np.ones(4), np.ones(4, bool)))
      whole = _weighed(adv, mask, old, logp, weights)
      micro = 0.0
      for rows in (order[:1], order[1:]):
        # The rest of the cell is empty places, as when cells are filled.
        keep = np.isin(np.arange(4), rows)[:, None]
        micro += _weighed(adv, mask * keep, old, logp, weights * keep)
      np.testing.assert_allclose(micro, whole, rtol=1e-4, atol=1e-6)


class DrGrpoTest(chex.TestCase):

  def _run(self, lengths):
    rollout = testing.make_rollout([[1, 0, 0, 0]], lengths=lengths, max_tokens=4)
    weigh = functools.partial(aggregate.seq_sum_constant, constant=4.)
    cell = testing.make_cell(advantages.dr_grpo(rollout), mask=rollout.mask, weigh=weigh)
    return _value_and_grad(losses.surrogate, cell, rollout.old_logp)

  def test_worked(self):
    value, grad = self._run([2, 1, 4, 0])
    np.testing.assert_allclose(value, -.015625, rtol=1e-6)
    np.testing.assert_allclose(grad[2], .25 / 16, rtol=1e-6)
    np.testing.assert_array_equal(grad[3], 0.0)

  def test_one_length_changes_no_other_gradient(self):
    _, grad = self._run([2, 1, 4, 0])
    _, shorter = self._run([2, 1, 2, 0])
    rows = jnp.array([0, 1, 3])
    np.testing.assert_array_equal(grad[rows], shorter[rows])
    np.testing.assert_array_equal(grad[2, :2], shorter[2, :2])


class RlooTest(chex.TestCase):

  def test_gradient_is_minus_advantage_over_rows(self):
    rollout = testing.make_rollout([[1, 0, 0, 1]], lengths=[1, 3, 2, 2])
    adv = advantages.rloo(rollout)
    cell = testing.make_cell(adv, mask=rollout.mask, weigh=aggregate.seq_sum)
    value, grad = _value_and_grad(losses.policy_gradient, cell, rollout.old_logp)
    expected = -adv[:, None] / 4 * rollout.mask
    np.testing.assert_allclose(grad, expected, rtol=1e-6)
    np.testing.assert_allclose(value, jnp.sum(expected * rollout.old_logp), rtol=1e-5)
    # On policy the clipped option on the response ratio has the same gradient.
    clipped = testing.make_cell(adv, mask=rollout.mask, old_logp=rollout.old_logp,
                                weigh=aggregate.seq_mean_token_mean)
    part = functools.partial(losses.surrogate, ratio=ratios.response_ratio)
    np.testing.assert_allclose(
        _value_and_grad(part, clipped, rollout.old_logp)[1], expected, rtol=1e-6)

  def test_an_impossible_token_gives_no_nan(self):
    cell = testing.make_cell([1.], mask=jnp.ones((1, 1)))
    value, grad = _value_and_grad(losses.policy_gradient, cell, jnp.full((1, 1), -jnp.inf))
    assert np.isfinite(value) and np.isfinite(grad).all()
