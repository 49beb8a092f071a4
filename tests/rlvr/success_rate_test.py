"""The running success rate of each prompt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import success_rate as success_rate_lib
from rlvr import testing
from rlvr import types


def state_of(memory, num_prompts):
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params={}, opt_state={}, anchors={}, method={}, knobs={},
      key=jax.random.key(0))
  return memory.init(state, num_prompts)


def test_guess_record_and_decay():
  """0.5 worth one response; then 3 of 4 right; then decay .5 of that and 0 of 2."""
  memory = success_rate_lib.success_rate(decay=.5)
  state = state_of(memory, 3)
  rollout = testing.make_rollout([[1, 1, 0, 1], [0, None]], padding=1)
  rollout = rollout.replace(prompts=rollout.prompts.replace(id=jnp.array([2, 0])))
  np.testing.assert_allclose(memory.read(rollout, state).extras['prior'], .5)
  state = jax.jit(memory.write)(state, rollout, {})
  rate = lambda state: np.asarray(memory.read(rollout, state).extras['prior'])
  np.testing.assert_allclose(rate(state), [3.5 / 5] * 4 + [.25] * 2 + [3.5 / 5], rtol=1e-6)
  wrong = testing.make_rollout([[0, 0]])
  wrong = wrong.replace(prompts=wrong.prompts.replace(id=jnp.array([2])))
  state = memory.write(state, wrong, {})
  np.testing.assert_allclose(rate(state)[0], (.5 + 1.5) / (1 + 2 + 2), rtol=1e-6)
  np.testing.assert_allclose(rate(state)[4], .25, rtol=1e-6)  # not met, not forgotten


def test_ids_outside_the_training_set_are_guessed_and_not_recorded():
  memory = success_rate_lib.success_rate(initial=.25)
  state = state_of(memory, 2)
  rollout = testing.make_rollout([[1], [1]])
  rollout = rollout.replace(prompts=rollout.prompts.replace(id=jnp.array([1, 9])))
  written = memory.write(state, rollout, {})
  np.testing.assert_array_equal(written.method['success_rate']['count'], [0, 1])
  np.testing.assert_allclose(memory.read(rollout, written).extras['prior'][1], .25)


def test_nothing_graded_writes_nothing():
  memory = success_rate_lib.success_rate()
  state = state_of(memory, 2)
  written = memory.write(state, testing.make_rollout([[None, None]]), {})
  jax.tree.map(np.testing.assert_array_equal, written.method, state.method)


@pytest.mark.parametrize('options', [dict(strength=0.), dict(decay=1.5)])
def test_ranges(options):
  with pytest.raises(ValueError, match=f'success_rate: {next(iter(options))}='):
    success_rate_lib.success_rate(**options)
