"""The contract of every environment in the table, and of every reasoning-gym data set."""

import json
import pickle
import random

import pytest

from rlvr import envs
from rlvr import spec
from rlvr import verifiers
from rlvr.envs import gym


def _options(name, tmp_path):
  """Options that make a small environment; the defaults wherever they can."""
  if name != 'questions':
    return {'reasoning_gym': {'size': 20, 'num_held_out': 5}}.get(name, {})
  path = tmp_path / 'rows.jsonl'
  path.write_text(''.join(
      json.dumps({'question': f'{i}?', 'answer': f'#### {i}'}) + '\n' for i in range(30)))
  return {'path': str(path)}


def _make(name, tmp_path):
  cfg = spec.spec(envs.ENVS[name], **_options(name, tmp_path))
  tables = {'env': envs.ENVS, 'verifier': verifiers.VERIFIERS, 'judge': verifiers.JUDGES}
  return spec.resolve(tables, cfg, 'config.env', 'env')()


def _question(task):
  return task['messages'][-1]['content']


@pytest.mark.parametrize('name', envs.ENVS)
class TestContract:

  def test_tasks_are_whole_and_ids_are_indices(self, name, tmp_path):
    made = _make(name, tmp_path)
    assert len(made.train) > 0 and len(made.held_out) > 0
    ids = [task['id'] for part in (made.train, made.held_out) for task in part]
    assert ids == list(range(len(made.train) + len(made.held_out)))
    for task in (made.train[0], made.held_out[-1]):
      assert {message['role'] for message in task['messages']} <= {'system', 'user', 'assistant'}
      assert task['messages'][-1]['role'] == 'user'
      assert all(isinstance(message['content'], str) for message in task['messages'])
      assert isinstance(task['answer'], str) and task['answer']
    assert isinstance(made.description, str) and '\n' not in made.description

  def test_nothing_held_out_is_trained_on(self, name, tmp_path):
    made = _make(name, tmp_path)
    assert not set(map(_question, made.train)) & set(map(_question, made.held_out))

  def test_an_index_gives_the_same_task_in_any_order_and_in_another_process(self, name, tmp_path):
    made = _make(name, tmp_path)
    indices = list(range(len(made.train)))
    first = [made.train[i] for i in indices]
    random.Random(0).shuffle(indices)
    again = pickle.loads(pickle.dumps(_make(name, tmp_path)))
    assert all(made.train[i] == first[i] == again.train[i] for i in indices)

  def test_the_reference_is_paid_and_a_blank_answer_is_not(self, name, tmp_path):
    made = _make(name, tmp_path)
    task = made.held_out[0]
    assert pickle.loads(pickle.dumps(made.verifier))(task, task['answer']).reward == 1
    assert made.verifier(task, '').reward == 0

  def test_an_index_out_of_range_ends_an_iteration(self, name, tmp_path):
    made = _make(name, tmp_path)
    with pytest.raises(IndexError):
      made.train[len(made.train)]


def test_every_reasoning_gym_data_set_makes_scorable_tasks():
  from reasoning_gym import factory  # over a second, so not while tests are collected

  names = sorted(set(factory.DATASETS) - {'composite'})  # a mixture; gym_test has one
  assert len(names) > 90
  unscorable, unpaid = [], []
  for name in names:
    made = gym.reasoning_gym(dataset=name, size=2, num_held_out=0)
    task = made.train[1]
    pickle.dumps(task)
    assert made.verifier(task, '').status == 'no_answer', name
    for text in ('garbage', '\x00', '[[1', '-', '<answer>{}</answer>'):
      result = made.verifier(task, text)
      assert result.status in ('ok', 'bad_text'), (name, text, result)
      assert 0 <= result.reward < 1, (name, text, result)
    if not task['answer']:
      unscorable.append(name)
    elif made.verifier(task, f'<answer>{task["answer"]}</answer>').reward < 1:
      unpaid.append(name)
  assert not unpaid, 'their own scorer does not pay their own answer'
  # These have many right answers and give none, so only their scorer can tell.
  assert unscorable == ['boxnet', 'graph_color', 'propositional_logic', 'rubiks_cube', 'rush_hour']
