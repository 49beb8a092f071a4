"""Settings of every test: CPU, one device, strict shapes, and compiled programs kept on disk.

Several simulated devices slow down everything, so a test that needs them starts
a process of its own (see parallel_test.py).
"""

import os
import pathlib
import sys

# Folders under tests/ have the packages' names; the packages must be found first.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))


def pytest_configure(config):
  """Runs before any test module, and so before jax, is imported.

  Set in the environment, which the processes that tests start inherit.
  """
  os.environ.setdefault('JAX_PLATFORMS', 'cpu')
  cache = getattr(config, 'cache', None)  # absent under -p no:cacheprovider
  if cache is not None:
    os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(cache.mkdir('jax')))
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES', '-1')
  import jax  # after the environment
  jax.config.update('jax_numpy_rank_promotion', 'raise')
