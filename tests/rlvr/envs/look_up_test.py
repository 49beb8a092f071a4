"""The look-up tool: what the world says, what counts as the answer, and options."""

import pickle

import pytest

from rlvr import envs
from rlvr.envs import look_up


class TestLookUp:

  def test_a_script_is_graded_right(self):
    env = envs.look_up_tiny()
    for task in (env.train[0], env.held_out[3]):
      (query, seen), (answer, end) = task['script']
      assert look_up.respond(task, (query,)) == seen and end is None
      assert look_up.respond(task, (query, answer)) is None
      assert env.verifier(task, query + seen + answer).reward == 1
      assert env.verifier(task, query + seen).reward == 0  # the world's text is no answer

  def test_other_queries(self):
    env = envs.look_up_tiny()
    key = env.train[0]['key']
    assert env.respond(env.train[0], ('zz',)) == '=?>'
    assert env.failed('=?>') and not env.failed('=7>')
    assert env.respond(env.train[0], ('', key)) == f'={env.train[0]["answer"]}>'
    assert env.respond(env.train[0], (key, '', key)) is None

  def test_ids_and_pickling(self):
    env = envs.look_up_tiny(letters=3, num_held_out=2)
    assert [t['id'] for t in (*env.train, *env.held_out)] == list(range(9))
    assert pickle.loads(pickle.dumps(env.respond)) is env.respond

  @pytest.mark.parametrize('letters', [1, 9])
  def test_letters(self, letters):
    with pytest.raises(ValueError, match='letters='):
      envs.look_up_tiny(letters=letters)
