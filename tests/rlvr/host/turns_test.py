"""Turns in one row: ids are kept, observations are untrained, the schedule changes nothing."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr import masks
from rlvr import testing
from rlvr import types
from rlvr.envs import env as env_lib
from rlvr.host import turns
from rlvr.policy import tiny
from rlvr.policy import transformer
from rlvr.samplers import decode

WORDS = {1: 'he', 2: 'llo', 3: 'hello', 4: '!', 5: 'so', 9: ''}
STOP = 9


class Words:
  """'hello' is written with two ids here, but encodes to one."""

  def decode(self, ids):
    return ''.join(WORDS[i] for i in ids)

  def encode(self, text):
    return {'hello': [3], '!so': [4, 5], '': []}[text]


class Scripted:
  """A sampler that writes the next scripted turn of each running row."""

  def __init__(self, scripts, width=8):
    self.scripts, self.width, self.turn = scripts, width, 0

  def __call__(self, params, prompts, key, version, greedy, counts=None):
    self.turn = 0
    rollout = testing.make_rollout(
        [[0.]] * len(self.scripts), lengths=[0] * len(self.scripts), max_tokens=self.width,
        stops=[types.RUNNING] * len(self.scripts))
    return self.resume(params, rollout.replace(mask=rollout.mask * 0), key, version)

  def resume(self, params, rollout, key, version):
    tokens, valid, mask, stop = (
        np.array(x) for x in (rollout.tokens, rollout.valid, rollout.mask, rollout.stop))
    for row in np.flatnonzero(stop == types.RUNNING):
      for token in self.scripts[row][self.turn]:
        at = valid[row].sum()
        tokens[row, at], valid[row, at], mask[row, at] = token, True, 1
      stop[row] = types.STOP_TOKEN if token == STOP else types.BUDGET
    self.turn += 1
    return rollout.replace(tokens=tokens, valid=valid, mask=mask, stop=stop), {'n': jnp.int32(1)}


def converse(scripts, respond, max_turns=2, width=8):
  task = {'id': 0, 'messages': []}
  env = env_lib.Env([task] * len(scripts), [], None, '', respond)
  prompts = testing.make_rollout([[0.]] * len(scripts)).prompts
  talk = turns.Conversation(Scripted(scripts, width), env, Words(), max_turns)
  return talk(None, prompts, None, 7, False)


class TestConversation:

  def test_fault_6_sampled_ids_are_kept(self):
    """fault 6: 'he' 'llo' stays two ids though the text encodes to one."""
    heard = []
    says = lambda task, texts: heard.append(texts) or '!so'
    rollout, stats = converse([[[1, 2, 9], [5, 9]]], says)
    np.testing.assert_array_equal(rollout.tokens, [[1, 2, 9, 4, 5, 5, 9, 0]])
    assert heard == [('hello',)]
    assert int(stats['n']) == 2

  def test_fault_8_observations_are_untrained(self):
    """fault 8: valid, of mask 0, under the step's version, of the turn they answer."""
    rollout, _ = converse([[[1, 2, 9], [5, 9]]], lambda task, texts: '!so')
    np.testing.assert_array_equal(rollout.valid, [[1] * 7 + [0]])
    np.testing.assert_array_equal(rollout.mask, [[1, 1, 1, 0, 0, 1, 1, 0]])
    np.testing.assert_array_equal(masks.observed_tokens(rollout), [[0, 0, 0, 1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(rollout.version[0, 3:5], [7, 7])
    np.testing.assert_array_equal(rollout.rollout_logp[0, 3:5], 0)
    np.testing.assert_array_equal(rollout.turn, [[0, 0, 0, 0, 0, 1, 1, 0]])

  def test_when_a_row_is_over(self):
    """Answered by None, out of tokens, out of turns; each on its own."""
    says = lambda task, texts: None if texts[-1] == 'so' else '!so'
    rollout, _ = converse(
        [[[5, 9]], [[1, 1]], [[1, 9], [1, 9]], [[1, 9], [5, 9]]], says, max_turns=2)
    np.testing.assert_array_equal(types.lengths(rollout), [2, 2, 6, 6])
    np.testing.assert_array_equal(rollout.stop, [1, 2, 1, 1])
    np.testing.assert_array_equal(rollout.extras['state_id'][:, 1] >= 0, [0, 0, 1, 1])

  def test_an_observation_without_room(self):
    rollout, _ = converse([[[1, 2, 9], [5, 9]]], lambda task, texts: '!so', width=5)
    np.testing.assert_array_equal(rollout.tokens, [[1, 2, 9, 0, 0]])
    np.testing.assert_array_equal(rollout.stop, [types.BUDGET])

  def test_an_empty_answer_goes_on(self):
    rollout, _ = converse([[[1, 9], [5, 9]]], lambda task, texts: '')
    np.testing.assert_array_equal(rollout.tokens, [[1, 9, 5, 9, 0, 0, 0, 0]])
    np.testing.assert_array_equal(rollout.turn[0, :4], [0, 0, 1, 1])

  def test_what_was_used_is_counted(self):
    """'so' is the world's word first; the empty first turn elicited it and is in error."""
    env = env_lib.Env([{'id': 0, 'messages': []}], [], None, '', lambda task, texts: '!so',
                      failed=lambda text: text == '!so')
    prompts = testing.make_rollout([[0.]]).prompts
    for failed, uses in ((None, [[1, 0, 0, 0], [0, 1, 0, 0]]),
                         (env.failed, [[0, 0, 1, 1], [0, 0, 0, 0]])):
      talk = turns.Conversation(
          Scripted([[[9], [5, 9]]]), env._replace(failed=failed), Words(), 2)
      rollout, _ = talk(None, prompts, None, 7, False)
      np.testing.assert_array_equal(rollout.extras['action_uses'], [uses])


class TestSignatures:

  def test_states_are_earlier_actions(self):
    state, action = turns.signatures([['a', 'B'], [' A', 'c'], ['c']], 3)
    assert state[0, 0] == state[1, 0] == state[2, 0] and state[0, 1] == state[1, 1]
    assert action[0, 0] == action[1, 0] != action[0, 1] and action[1, 1] == action[2, 0]
    np.testing.assert_array_equal(state[:, 2], -1)
    assert (state[:2, :2] >= 0).all() and state[2, 1] == -1


CONFIG = dataclasses.replace(tiny.config(vocab_size=13), tie_embeddings=False)
POLICY = transformer.make_policy(CONFIG)


class Real:
  """decode.sample behind the interface of a run's sampler."""

  def __init__(self, slots):
    self._sample = jax.jit(functools.partial(
        decode.sample, knobs={}, policy=POLICY, slots=slots, stop_ids=(2, 9)))

  def __call__(self, params, prompts, key, version, greedy, counts=None):
    rollout, _ = decode.grow(decode.begin(prompts, 4, 12), jnp.array([2, 2]))
    return self.resume(params, rollout, key, version)

  def resume(self, params, rollout, key, version):
    return self._sample(params, rollout, key, version=version)


class Numbers:

  def decode(self, ids):
    return ' '.join(map(str, ids))

  def encode(self, text):
    return [int(i) for i in text.split()]


def test_the_schedule_changes_nothing_and_logps_belong_to_their_tokens():
  prompts = types.Prompts(tokens=jnp.array([[1, 3], [6, 0]]), length=jnp.array([2, 1]),
                          id=jnp.arange(2))
  env = env_lib.Env([{'messages': []}] * 2, [], None, '', lambda task, texts: '4 5')
  params, key = jax.jit(POLICY.init)(jax.random.key(0)), jax.random.key(8)
  talk = lambda slots: turns.Conversation(Real(slots), env, Numbers(), 3)(
      params, prompts, key, 0, False)[0]
  one, four = talk(1), talk(4)
  for name in ('tokens', 'valid', 'mask', 'stop', 'turn'):
    np.testing.assert_array_equal(getattr(one, name), getattr(four, name))
  assert int(one.turn.max()) > 0
  own = np.asarray(one.mask) != 0
  scored = jax.jit(POLICY.score)(params, one, {}).logp
  np.testing.assert_allclose(scored[own], np.asarray(one.rollout_logp)[own], atol=1e-4)
