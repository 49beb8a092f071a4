"""Whose weights score the old log-probs: the average, and each token's own version."""

import functools
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / 'train'))

import direct  # noqa: E402

from rlvr import corrections  # noqa: E402
from rlvr import losses  # noqa: E402
from rlvr import memory as memory_lib  # noqa: E402
from rlvr import old_policies  # noqa: E402
from rlvr import types  # noqa: E402
from rlvr.train import prepare  # noqa: E402


def state_at(value):
  params = {'w': jnp.float32(value), 'n': jnp.int32(3), 'critic': {'w': jnp.float32(9)}}
  return types.TrainState(step=jnp.zeros((), jnp.int32), params=params, opt_state=(), anchors={},
                          method={}, knobs={}, key=jax.random.key(0))


class TestEwma:

  def _averages(self, values, active=1., **options):
    """The average after each version theta(0), theta(1), ..."""
    part = old_policies.ewma(**options)
    state = part.init(state_at(values[0]), 1)
    write = jax.jit(part.write)
    averages = [float(state.anchors['ewma']['w'])]
    shares = active if isinstance(active, list) else [active] * (len(values) - 1)
    for value, share in zip(values[1:], shares, strict=True):
      state = state.replace(params=state.params | {'w': jnp.float32(value)})
      state = write(state, None, {'active': jnp.float32(share), 'trained_rows': jnp.ones(())})
      averages.append(float(state.anchors['ewma']['w']))
    return averages

  def test_worked(self):
    averages = self._averages([0, 1, 2, 3], window=2)  # decay 1/2
    assert averages[0] == 0  # no bias towards zero at the start, nor away from it
    np.testing.assert_allclose(averages[3], 2.2666667, rtol=1e-6)

  def test_of_a_constant(self):
    np.testing.assert_allclose(self._averages([.7] * 20, window=8), .7, rtol=1e-6)

  @pytest.mark.parametrize('window', [2, 4, 8])
  def test_lags_half_a_window(self, window):
    lags = np.arange(150) - self._averages(list(range(150)), window=window)
    assert lags[-1] == pytest.approx(window / 2, rel=1e-3)
    assert (np.diff(lags) > -1e-4).all() and lags[1] < window / 2

  def test_window_0_is_the_present_policy(self):
    assert self._averages([0, 1, 5], window=0) == [0, 1, 5]

  def test_resets_iff_the_active_share_is_below(self):
    kept, reset = (self._averages([0, 1, 4], active=[1., share]) for share in (.9, .89))
    assert kept[2] < 4 and reset[2] == 4
    twice = self._averages([0, 1, 4, 6], active=[1., .5, .5])
    assert twice[2:] == [4, 6]

  def test_a_step_without_rows_resets_nothing(self):
    part = old_policies.ewma()
    state = part.init(state_at(0.), 1)
    state = state.replace(params=state.params | {'w': jnp.float32(1)})
    state = part.write(state, None, {'active': jnp.zeros(()), 'trained_rows': jnp.zeros(())})
    assert 0 < float(state.anchors['ewma']['w']) < 1

  def test_integers_are_taken_over_and_a_critic_is_left_out(self):
    part = old_policies.ewma()
    state = part.init(state_at(0.), 1)
    assert set(state.anchors['ewma']) == {'w', 'n'}
    state = state.replace(params=state.params | {'n': jnp.int32(5)})
    state = part.write(state, None, {'active': jnp.ones(()), 'trained_rows': jnp.ones(())})
    assert int(state.anchors['ewma']['n']) == 5

  def test_refusals(self):
    for options in ({'window': -1}, {'reset_below': 1.5}):
      with pytest.raises(ValueError, match=f'{min(options)}={min(options.values())}'):
        old_policies.ewma(**options)
    part = old_policies.ewma()
    with pytest.raises(ValueError, match='metric active'):
      part.write(part.init(state_at(0.), 1), None, {'trained_rows': jnp.ones(())})


class TestSnapshots:

  def _run(self, num_steps, keep):
    """A state after steps that each lower every log-prob by 0.01, and all its versions."""
    rollout = direct.make_rollout([[1, 0]], lengths=[3, 3])
    finish = jax.jit(memory_lib.make_finish((old_policies.snapshots(keep=keep),)))
    state = old_policies.snapshots(keep=keep).init(direct.make_state(rollout), 1)
    every = [state.params]
    for _ in range(num_steps):
      state = state.replace(params=jax.tree.map(lambda x: x - .01, state.params))
      state = finish(state, rollout, {})
      every.append(state.params)
    return rollout, state, every

  def test_each_token_by_its_own_version(self):
    rollout, state, every = self._run(4, keep=2)
    version = jnp.array([[3, 3, 4], [4, 4, 4]])
    score = lambda params: params['logp']
    own = jax.jit(functools.partial(old_policies.OLD_POLICIES['snapshots'].logp, score))
    result = own(version, state)
    # What a scorer that was there at the time would have appended, version by version.
    then = np.where(version == 3, every[3]['logp'], every[4]['logp'])
    np.testing.assert_array_equal(result, then)
    assert bool(old_policies.OLD_POLICIES['snapshots'].known(version, state).all())

  def test_a_snapshot_that_is_gone_is_never_replaced(self):
    _, state, _ = self._run(4, keep=2)
    known = old_policies.OLD_POLICIES['snapshots'].known
    np.testing.assert_array_equal(known(jnp.array([[2, 3, -1]]), state), [[False, True, False]])

  def test_tokens_without_their_snapshot_get_no_gradient(self):
    rollout, state, every = self._run(4, keep=2)
    rollout = rollout.replace(version=jnp.array([[2, 3, 4], [4, 4, 4]]),
                              rollout_logp=every[4]['logp'])
    recipe = direct.make_recipe(
        loss=losses.surrogate, score_old=True, correction=corrections.none,
        old_policy=old_policies.OLD_POLICIES['snapshots'])
    moved, metrics, _ = direct.gradient(rollout, recipe, direct.make_layout(spans=(3,)), state)
    np.testing.assert_array_equal(moved != 0, [[False, True, True], [True] * 3])
    assert metrics['old_gone'] == pytest.approx(1 / 6)
    assert metrics['active'] == pytest.approx(5 / 6)

  def test_keep_is_at_least_one(self):
    with pytest.raises(ValueError, match='keep=0'):
      old_policies.snapshots(keep=0)


class TestInPrepare:

  @pytest.mark.parametrize('score_first', [False, True])
  def test_the_average_scores_old_logp(self, score_first):
    rollout = direct.make_rollout([[1, 0]], lengths=[3, 2])
    state = direct.make_state(rollout)
    average = {'logp': state.params['logp'] - .25}
    recipe = direct.make_recipe(score_old=True, score_first=score_first,
                                old_policy=old_policies.OLD_POLICIES['ewma'])
    layout = direct.make_layout(num_cells=1, spans=(3,))
    (batch,), _, _ = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))(
        rollout, state.replace(anchors={'ewma': average}))
    expected = np.where(batch.valid, average['logp'][batch.extras['row']], 0)
    np.testing.assert_allclose(batch.old_logp, expected, rtol=1e-6)
