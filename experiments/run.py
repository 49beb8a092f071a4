"""Runs one experiment.

    python -m experiments.run --config=experiments/configs/quickstart.py
    python -m experiments.run --config=experiments/configs/grpo.py:advantage=rloo,size=tiny \
        --config.optimizer.learning_rate=1e-3 --config.run_dir=runs/mine

Structure by config argument, numbers by flag; --dry_run says what would run.
"""

import os
import pathlib
import sys

from absl import app
from absl import flags
from absl import logging
from ml_collections import config_flags

try:
  from experiments import mistakes
except ImportError as fault:  # a package is missing, or another distribution's hides ours
  sys.exit(f'error: {fault}')

_CONFIG = config_flags.DEFINE_config_file('config', None, 'Config file and its argument.')
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Print what would run.')
flags.mark_flag_as_required('config')


def main(argv):
  if os.environ.get('RLVR_NUM_PROCESSES', '1') != '1':
    raise ValueError('RLVR_NUM_PROCESSES is set above 1; a run uses the devices of one process.')
  if len(argv) > 1:
    raise ValueError(f'Unexpected arguments {argv[1:]}; options look like --config.seed=1.')
  if not flags.FLAGS['verbosity'].present:
    logging.set_verbosity(logging.WARNING)  # the progress line is what a user watches
  _keep_compiled()
  from experiments import build
  from experiments import dry_run
  from rlvr.host import export
  from rlvr.host import loop
  from rlvr.host import plot
  from rlvr.host import run_dir
  from rlvr.policy import critic

  c = _CONFIG.value
  if _DRY_RUN.value:
    print(dry_run.report(c))
    return
  run, model = build.build(c, pathlib.Path(c.run_dir))
  folder, resumed = run_dir.open_run(c.run_dir, c, may_differ=('num_steps', 'run_dir'))
  state = loop.train(run._replace(folder=folder), resumed=resumed)
  if (folder / run_dir.METRICS).stat().st_size:  # not interrupted before all else
    plot.plot(folder)
  if state.step < c.num_steps:
    raise KeyboardInterrupt
  if c.checkpoint.export:
    export.export(folder / 'model', model.config, critic.policy_share(state.params),
                  model.tokenizer, overwrite=True)
  print(f'The run of {state.step} steps is in {folder}')


def _keep_compiled():
  """Compiled programs stay on disk, so that a second start takes seconds."""
  import jax
  if not jax.config.jax_compilation_cache_dir:
    cache = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    jax.config.update('jax_compilation_cache_dir', str(pathlib.Path(cache) / 'rlvr' / 'jax'))


def run(argv=None):
  """The command line: what a user got wrong is one sentence and exit code 1."""
  try:
    app.run(main, argv, flags_parser=mistakes.parse_flags)
  except (ValueError, OSError) as error:
    sys.exit(f'error: {mistakes.without_number(error)}')
  except KeyboardInterrupt:
    print('interrupted: the same command goes on from the last checkpoint, if there is one',
          file=sys.stderr)
    sys.exit(130)


if __name__ == '__main__':
  run()
