"""Tests of rlvr.envs.env."""

import pytest

from rlvr.envs import env


class TestTasks:

  def test_random_access(self):
    tasks = env.Tasks(3, lambda i: {'id': i})
    assert len(tasks) == 3
    assert [task['id'] for task in tasks] == [0, 1, 2]
    assert tasks[-1] == {'id': 2}
    for index in (3, -4):
      with pytest.raises(IndexError):
        tasks[index]


class TestMessages:

  def test_a_blank_system_prompt_is_left_out(self):
    assert env.messages('q') == [{'role': 'user', 'content': 'q'}]
    assert env.messages('q', 's')[0] == {'role': 'system', 'content': 's'}
