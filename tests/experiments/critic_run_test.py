"""A run with everything that a step may remember: continued, it is the run that never stopped."""

import pathlib
import sys

import jax
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import small_run  # noqa: E402

from experiments.configs import ppo_ewma_decoupled  # noqa: E402


def config(path, num_steps, arg):
  c = ppo_ewma_decoupled.get_config(f'size=tiny,{arg}')
  c.run_dir, c.num_steps, c.checkpoint.every = str(path), num_steps, 0
  c.rollout.prompts, c.rollout.responses, c.batch.cell_rows = 2, 4, 8
  c.model.warm_start_steps, c.eval.prompts, c.score_first = 0, 0, True
  c.memory.old.reset_below = 1.0
  c.critic.warmup_steps, c.stepping.window = 1, 3
  c.log.tensorboard = False
  return c


@pytest.mark.slow
def test_critic_average_and_latch_continue_bit_for_bit(tmp_path):
  arg = 'advantage=gae,critic.value=value_head,losses.value=value_loss,stepping=sfpo'
  run = lambda name, steps: small_run.train(small_run.make(config(tmp_path / name, steps, arg)))[0]
  whole = run('whole', 4)
  run('parts', 2)
  parts = run('parts', 4)
  assert set(whole.method) == {'ewma', 'sfpo'} and 'critic' in whole.params
  assert int(whole.method['sfpo']['recorded']) == 3  # the first step trained the critic alone
  plain = lambda tree: jax.tree.map(
      lambda x: jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
      else np.asarray(x), tree)
  jax.tree.map(np.testing.assert_array_equal, plain(parts), plain(whole))
