"""A run small enough to be killed, continued and compared: python small_run.py RUN MODE.

MODE 'plain' runs to the end, 'slow' pauses before each sampling so that a signal
finds it under way, 'die in save' kills itself with SIGKILL inside its first save.
Dynamic sampling, two passes over a batch and two minibatches.
"""

import os
import pathlib
import signal
import sys
import threading
import time

import paying_verifiers

from experiments import build
from experiments.configs import dapo
from rlvr.host import loop
from rlvr.host import run_dir

NUM_STEPS = 10


def config(path):
  """DAPO's parts on the toy, 4 prompts of 4 responses."""
  c = dapo.get_config('size=tiny')
  c.run_dir = str(path)
  c.num_steps = NUM_STEPS
  c.rollout.prompts, c.rollout.responses, c.rollout.max_rounds = 4, 4, 3
  c.batch.epochs, c.batch.minibatches, c.batch.cell_rows = 2, 2, 8
  c.eval.prompts, c.eval.pass_at, c.eval.every = 4, (1, 2), 4
  c.checkpoint.every = 3
  c.model.warm_start_steps = 0  # `by_hash` pays random texts
  c.log.tensorboard = False
  return c


def make(c, verifier=paying_verifiers.by_hash):
  """The run of a config, graded by `verifier`; its folder is not made."""
  run, _ = build.build(c, pathlib.Path(c.run_dir))
  return run._replace(env=run.env._replace(verifier=verifier))


def train(run):
  """What the command does: (final state, folder)."""
  folder, resumed = run_dir.open_run(run.config.run_dir, run.config, may_differ=('num_steps',))
  return loop.train(run._replace(folder=folder), resumed=resumed), folder


def _die_in_save(folder):
  while not list(folder.glob('*orbax-checkpoint-tmp*')):
    time.sleep(.0005)
  os.kill(os.getpid(), signal.SIGKILL)


def main():
  path, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
  run = make(config(path))
  sample = run.sample
  if mode == 'slow':
    def slowly(*args):
      time.sleep(.3)
      return sample(*args)
    run = run._replace(sample=slowly)
  if mode == 'die in save':
    threading.Thread(target=_die_in_save, args=(path / run_dir.CHECKPOINTS,), daemon=True).start()
  train(run)


if __name__ == '__main__':
  main()
