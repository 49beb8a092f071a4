"""The optimiser's first steps by hand, its schedule, and the options it refuses."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr import optimizer


def run(transform, grads, start=0.0):
  """Parameter values after each gradient; one parameter of two entries."""
  params = jnp.full(2, start)
  state, path = transform.init(params), []
  for grad in grads:
    updates, state = transform.update(jnp.asarray(grad, jnp.float32), state, params)
    params = optax.apply_updates(params, updates)
    path.append(np.asarray(params))
  return np.array(path)


class TestAdam:

  def test_the_first_step_is_the_rate_in_the_gradients_sign(self):
    path = run(optimizer.adam(learning_rate=0.1, max_grad_norm=0.0), [[3.0, -0.02]])
    np.testing.assert_allclose(path[0], [-0.1, 0.1], rtol=1e-5)

  def test_second_step_by_hand(self):
    path = run(optimizer.adam(learning_rate=0.1, b1=0.5, b2=0.5, max_grad_norm=0.0),
               [[1.0, 1.0], [3.0, -1.0]])
    # m = (.25 + 1.5) / .75, v = (.25 + 4.5) / .75; m = (.25 - .5) / .75, v = 1.
    moment, square = 1.75 / 0.75, 4.75 / 0.75
    np.testing.assert_allclose(
        path[1] - path[0], [-0.1 * moment / np.sqrt(square), 0.1 / 3], rtol=1e-5)

  def test_clipping_is_by_the_global_norm_before_the_moments(self):
    transform = optimizer.adam(learning_rate=0.1, b1=0.0, b2=0.0, eps=1.0, max_grad_norm=1.0)
    # (3, 4) is scaled to (.6, .8); with b = 0 the step is g / (|g| + eps).
    np.testing.assert_allclose(
        run(transform, [[3.0, 4.0]])[0], [-0.1 * 0.6 / 1.6, -0.1 * 0.8 / 1.8], rtol=1e-5)

  def test_weight_decay_is_decoupled(self):
    transform = optimizer.adam(learning_rate=0.1, weight_decay=0.5)
    np.testing.assert_allclose(run(transform, [[0.0, 0.0]], start=2.0)[0], 2 - 0.1 * 0.5 * 2)

  @pytest.mark.parametrize('warmup, decay, expected', [
      (0, 0, [1, 1, 1, 1]), (2, 0, [0.5, 0.75, 1, 1]), (0, 4, [1, 0.853553, 0.5, 0.146447])])
  def test_schedule(self, warmup, decay, expected):
    transform = optimizer.adam(learning_rate=1.0, b1=0.0, b2=0.0, warmup_steps=warmup,
                               decay_steps=decay, max_grad_norm=0.0)
    path = run(transform, [[1.0, -1.0]] * 4)
    steps = -np.diff(np.concatenate([[0.0], path[:, 0]]))
    np.testing.assert_allclose(steps, expected, atol=1e-5)

  @pytest.mark.parametrize('option, value, message', [
      ('learning_rate', -1e-3, 'adam: learning_rate=-0.001 must be at least 0'),
      ('weight_decay', -1.0, 'adam: weight_decay=-1.0'), ('max_grad_norm', -1.0, 'max_grad_norm'),
      ('b1', 1.0, r'adam: b1=1.0 must be in \[0, 1\)'), ('b2', -0.1, 'adam: b2=-0.1'),
      ('warmup_steps', -1, 'adam: warmup_steps=-1')])
  def test_out_of_range_options_are_named(self, option, value, message):
    with pytest.raises(ValueError, match=message):
      optimizer.adam(**{option: value})

  def test_decay_starts_at_the_end_of_warm_up(self):
    transform = optimizer.adam(learning_rate=1.0, b1=0.0, b2=0.0, warmup_steps=2, decay_steps=4,
                               max_grad_norm=0.0)
    steps = -np.diff(run(transform, [[1.0, -1.0]] * 5)[:, 0])
    np.testing.assert_allclose(steps[1:], [1, 0.5, 0], atol=1e-5)

  def test_decay_ends_after_warm_up(self):
    with pytest.raises(ValueError, match='decay_steps=5 must exceed warmup_steps=5'):
      optimizer.adam(warmup_steps=5, decay_steps=5)


class TestSgd:

  def test_plain_momentum_and_clipping(self):
    np.testing.assert_allclose(
        run(optimizer.sgd(learning_rate=0.1), [[1.0, -2.0]] * 2)[1], [-0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(
        run(optimizer.sgd(learning_rate=0.1, momentum=0.5), [[1.0, 1.0]] * 2)[1], -0.25, rtol=1e-6)
    np.testing.assert_allclose(
        run(optimizer.sgd(learning_rate=1.0, max_grad_norm=1.0), [[3.0, 4.0]])[0], [-0.6, -0.8],
        rtol=1e-6)

  def test_out_of_range_options_are_named(self):
    with pytest.raises(ValueError, match='sgd: momentum=-1.0 must be at least 0'):
      optimizer.sgd(momentum=-1.0)
