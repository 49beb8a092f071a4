"""The entropy bonus raises entropy when minimised."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import losses
from rlvr import testing


def test_entropy_bonus():
  cell = testing.make_cell([0., 0.], mask=jnp.array([[1., 0], [1, 1]]))
  entropy = jnp.array([[.5, jnp.nan], [.2, .1]])
  out = testing.make_output(jnp.zeros((2, 2)), entropy=entropy)
  terms, metrics = losses.entropy_bonus(out, cell, {})
  np.testing.assert_allclose(terms, [[-.5, 0], [-.2, -.1]], rtol=1e-6)
  np.testing.assert_allclose(metrics['entropy'], -terms)
  grad = jax.grad(lambda e: losses.entropy_bonus(
      testing.make_output(jnp.zeros((2, 2)), entropy=e), cell, {})[0].sum())(entropy)
  np.testing.assert_array_equal(grad, [[-1, 0], [-1, -1]])
