"""Tests of rlvr.host.compiles."""

import jax
import jax.numpy as jnp

from rlvr.host import compiles


class TestCounter:

  def test_ten_lengths_in_two_buckets_compile_twice(self):
    """Fault 53."""
    counter = compiles.Counter()
    function = jax.jit(counter.wrap(jnp.sum))
    for length in range(1, 11):
      function(jnp.ones(8 if length <= 8 else 16))
    assert counter.count == 2

  def test_functions_share_a_counter_and_keep_their_results(self):
    counter = compiles.Counter()
    double, add = (jax.jit(counter.wrap(f)) for f in (lambda x: 2 * x, lambda x, *, y: x + y))
    assert double(jnp.float32(2)) == 4 and add(1, y=2) == 3 and add(5, y=6) == 11
    assert counter.count == 2
