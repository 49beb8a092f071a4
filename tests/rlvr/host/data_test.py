"""Tests of rlvr.host.data."""

import collections
import json

import numpy as np
import pytest

from rlvr.host import data


def _resumed(state, num_tasks, num_prompts, seed=0):
  stream = data.PromptStream(num_tasks, num_prompts, seed)
  stream.set_state(json.loads(json.dumps(state)))
  return stream


class TestPromptStream:

  def test_every_task_comes_once_an_epoch_and_epochs_differ(self):
    stream = data.PromptStream(10, 5, seed=3)
    epochs = [np.concatenate([next(stream), next(stream)]).tolist() for _ in range(4)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert epochs[0] != list(range(10))

  def test_batches_run_over_the_end_of_an_epoch(self):
    stream = data.PromptStream(10, 4)
    taken = np.concatenate([next(stream) for _ in range(5)])
    assert set(collections.Counter(taken.tolist()).values()) == {2}

  def test_a_batch_may_be_larger_than_the_data_set(self):
    batch = next(data.PromptStream(3, 8))
    assert batch.dtype == np.int32 and batch.shape == (8,)
    assert sorted(batch[:3]) == sorted(batch[3:6]) == [0, 1, 2]

  def test_the_seed_decides(self):
    first, same, other = (next(data.PromptStream(100, 20, seed)).tolist() for seed in (1, 1, 2))
    assert first == same != other

  def test_fault_44_stop_after_batch_three_and_the_next_prompt_is_the_fourth(self):
    stream = data.PromptStream(10, 1)
    whole = data.PromptStream(10, 10).take(10).tolist()
    updates = 0
    for _ in range(3):
      batch = next(stream)
      for _ in range(2):  # the updates taken on a batch move nothing
        updates += len(batch)
    state = stream.get_state()
    assert updates == 6 and state['num_taken'] == 3
    assert next(_resumed(state, 10, 1)).tolist() == [whole[3]]

  @pytest.mark.parametrize('stop', [0, 1, 3, 7])
  def test_fault_44_a_resumed_stream_goes_on_exactly(self, stop):
    stream = data.PromptStream(10, 4, seed=5)
    for _ in range(stop):
      next(stream)
    resumed = _resumed(stream.get_state(), 10, 4, seed=5)
    for _ in range(6):
      assert next(stream).tolist() == next(resumed).tolist()

  def test_fault_44_the_position_outlives_another_batch_size(self):
    stream = data.PromptStream(10, 4)
    next(stream)
    resumed = _resumed(stream.get_state(), 10, 3)
    assert next(resumed).tolist() == stream.take(3).tolist()

  def test_epoch(self):
    stream = data.PromptStream(8, 4)
    assert stream.epoch == 0
    next(stream)
    assert stream.epoch == .5

  def test_refuses_the_state_of_another_stream(self):
    state = data.PromptStream(10, 4).get_state()
    with pytest.raises(ValueError, match='num_tasks 10 and this one 11'):
      data.PromptStream(11, 4).set_state(state)
    with pytest.raises(ValueError, match='seed 0 and this one 1'):
      data.PromptStream(10, 4, seed=1).set_state(state)

  @pytest.mark.parametrize('sizes', [(0, 1), (1, 0)])
  def test_refuses_empty_sizes(self, sizes):
    with pytest.raises(ValueError, match='must be at least 1'):
      data.PromptStream(*sizes)
