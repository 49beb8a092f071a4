"""Tests of rlvr/lab tasks: demonstrations pass, near misses do not, partial rewards by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr import lab
from rlvr.lab import task as task_lib

_IDS = {c: i for i, c in enumerate(task_lib._TEXT[:21])}


def ids(text, width):
  """Characters as ids, PAD to the right; a response is valid up to its EOS '.'."""
  row = [_IDS[c] for c in text] + [task_lib.PAD] * (width - len(text))
  return jnp.array([row]), jnp.array([[i < len(text) for i in range(width)]])


def graded(task, prompt, response):
  prompts, _ = ids(prompt.ljust(task.prompt_length - 1, '_') + '|', task.prompt_length)
  correct, partial = task.verify(prompts, *ids(response, task.max_tokens))
  return float(correct[0]), float(partial[0])


@pytest.fixture(name='tasks', scope='module')
def _tasks():
  return {name: (task := make(), task.draw(jax.random.key(0), 400))
          for name, make in lab.TASKS.items()}


@pytest.mark.parametrize('name', lab.TASKS)
class TestEveryTask:

  def test_demonstrations_are_right(self, tasks, name):
    task, drawn = tasks[name]
    valid = drawn.demonstration != task_lib.PAD
    correct, partial = task.verify(drawn.prompts, drawn.demonstration, valid)
    np.testing.assert_array_equal(correct, 1)
    # Half of chain's demonstrations show no steps, a quarter of its partial reward.
    assert np.all(partial > 0.74) and (name == 'chain' or np.all(partial > 0.999))

  def test_shapes_and_levels(self, tasks, name):
    task, drawn = tasks[name]
    assert drawn.prompts.shape == (400, task.prompt_length)
    assert drawn.demonstration.shape == (400, task.max_tokens)
    assert (np.asarray(drawn.prompts)[:, -1] == task_lib.SEP).all()
    levels = range(task.levels[0], task.levels[1] + 1)
    counts = np.bincount(np.asarray(drawn.level), minlength=levels.stop)
    assert set(np.flatnonzero(counts)) == set(levels)
    assert counts.max() < 2 * counts[levels.start:].min()  # uniform
    assert np.all((np.asarray(drawn.demonstration) == task_lib.EOS).sum(axis=1) == 1)

  def test_a_demonstration_cut_short_or_changed_is_wrong(self, tasks, name):
    task, drawn = tasks[name]
    valid = drawn.demonstration != task_lib.PAD
    without_end = valid & (drawn.demonstration != task_lib.EOS)
    correct, partial = task.verify(drawn.prompts, drawn.demonstration, without_end)
    assert not correct.any() and np.all(np.asarray(partial) <= 1)
    changed = drawn.demonstration.at[:, 0].set(task_lib.HASH)
    correct, _ = task.verify(drawn.prompts, changed, valid)
    if name != 'chain':  # where '#' may stand first
      assert not correct.any()

  def test_any_ids_have_a_finite_grade(self, tasks, name):
    task, drawn = tasks[name]
    key = jax.random.key(1)
    tokens = jax.random.randint(key, drawn.demonstration.shape, 0, task_lib.VOCAB_SIZE)
    length = jax.random.randint(key, (400, 1), 0, task.max_tokens + 1)
    valid = jnp.arange(task.max_tokens)[None] < length
    correct, partial = jax.jit(task.verify)(drawn.prompts, tokens, valid)
    assert set(np.unique(correct)) <= {0.0, 1.0}
    assert np.all((np.asarray(partial) >= 0) & (np.asarray(partial) <= 1))
    # What is not valid is not read.
    other = jnp.where(valid, tokens, task_lib.EOS)
    np.testing.assert_array_equal(task.verify(drawn.prompts, other, valid)[1], partial)


@pytest.mark.parametrize('name, prompt, response, correct, partial', [
    ('sort', '3142', '1234.', 1, 1),
    ('sort', '3142', '1243.', 0, 3 / 5),
    ('sort', '3142', '12344.', 0, 4 / 5),
    ('sort', '0010', '0001.', 1, 1),
    ('add', '12+34', '64.', 1, 1),  # 46
    ('add', '99+01', '001.', 1, 1),  # 100
    ('add', '0+0', '0.', 1, 1),
    ('add', '12+34', '46.', 0, 1 / 3),
    ('chain', '3+4*2', '#4.', 1, .75),  # 7, 14 mod 10
    ('chain', '3+4*2', '74#4.', 1, 1),
    ('chain', '3-4', '9#9.', 1, 1),  # -1 mod 10
    ('chain', '3+4*2', '7#4.', 1, .875),
    ('chain', '3+4*2', '74#5.', 0, .5),
    ('chain', '3+4*2', '744.', 0, 0),
    ('countdown', '123|06', '1+2+3.', 1, 1),
    ('countdown', '123|06', '3*2*1.', 1, 1),
    ('countdown', '123|09', '1+2*3.', 1, 1),  # left to right
    ('countdown', '123|06', '3+3.', 0, .2 + .1),
    ('countdown', '123|06', '1+2+.', 0, .2),  # no shape, two of three numbers
    ('countdown', '123|07', '1+2+3.', 0, .5),
    ('bracket', '([', ']).', 1, 1),
    ('bracket', '([', '[]]).', 1, 1),
    ('bracket', '([', ')].', 0, 1 / 3),
    ('bracket', '(', ')', 0, 1),
])
def test_by_hand(name, prompt, response, correct, partial):
  got = graded(lab.TASKS[name](), prompt, response)
  np.testing.assert_allclose(got, (correct, partial), rtol=1e-6)


def test_text():
  assert task_lib.text(jnp.array([6, 13, 7, 2, 10, 1, 0])) == '3+4|7._'
