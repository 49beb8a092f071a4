"""Tests of the loop with stores: a continued run equals an unbroken one, and counts add up."""

import json
import pathlib
import sys

import jax
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'experiments'))

import paying_verifiers  # noqa: E402
import small_run  # noqa: E402

from experiments.configs import rorecomp  # noqa: E402
from rlvr import memories  # noqa: E402
from rlvr import replay  # noqa: E402
from rlvr import spec  # noqa: E402
from rlvr.host import run_dir  # noqa: E402

NUM_STEPS = 5
_TIMED = ('seconds', 'tokens_per_second', 'compiles', 'peak_temp_bytes')


def config(folder, num_steps):
  """Both stores at once; at step 4 replay ends."""
  c = rorecomp.get_config('size=tiny')
  c.run_dir, c.num_steps, c.seed = str(folder), num_steps, 1
  c.rollout.prompts, c.rollout.responses = 5, 4
  c.rollout.prompt_buckets = (8, 12)
  c.replay = spec.spec(replay.recent_groups)
  c.memory.reincarnation = spec.spec(memories.reincarnation, at=4)
  c.batch.compensation_last = 1.0  # else the chance follows num_steps
  c.model.warm_start_steps = c.eval.prompts = 0
  c.batch.epochs, c.batch.cell_rows = 2, 8
  c.log.tensorboard = False
  return c


def trained(folder, *lengths):
  for num_steps in lengths:
    state, _ = small_run.train(small_run.make(config(folder, num_steps), paying_verifiers.by_hash))
  rows = [json.loads(line) for line in (folder / run_dir.METRICS).read_text().splitlines()]
  return state.replace(key=jax.random.key_data(state.key)), rows


@pytest.mark.slow
class TestContinuedRun:

  def test_stores_are_saved_and_fresh_prompts_fill_the_batch(self, tmp_path):
    state, rows = trained(tmp_path / 'whole', NUM_STEPS)
    other, again = trained(tmp_path / 'parts', 2, NUM_STEPS)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
      assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    plain = lambda row: {k: v for k, v in row.items() if not k.startswith(_TIMED)}
    assert [plain(row) for row in rows] == [plain(row) for row in again]
    assert [row['rows'] for row in rows] == [row['sampled_rows'] for row in rows] == [
        20, 12, 12, 12, 20]
    # Two groups each time, of which the selected rows are held.
    assert [0 < row['replayed_rows'] < 8 for row in rows] == [False, True, True, True, False]
    assert all(row['pack_left_out'] == 0 for row in rows)
    assert sum(row['compensation_rows'] for row in rows) > 0
    assert len({row['compiles'] for row in rows}) == 1 and rows[0]['compiles'] == 3
