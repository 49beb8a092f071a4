"""What may import what, how long a file may be, and that a part's name is its own."""

import ast
import collections
import pathlib
import subprocess
import sys

import pytest

from experiments import tables

ROOT = pathlib.Path(__file__).parents[1]
MAX_LINES = 250


def files(*folders):
  return [path for folder in folders for path in sorted((ROOT / folder).rglob('*.py'))]


def module_name(path):
  parts = path.relative_to(ROOT).with_suffix('').parts
  return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def imports(source):
  """Every module that a source names in an import, wherever the import stands."""
  found = set()
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert not node.level, 'relative import'
      found |= {node.module, *(f'{node.module}.{alias.name}' for alias in node.names)}
  return found


def under(names, *packages):
  return {name for name in names for package in packages
          if name == package or name.startswith(package + '.')}


class TestNoJax:

  def test_workers_start_without_jax(self):
    # A grading worker that is replaced imports these, in a fresh process.
    modules = ['rlvr', *map(module_name, files('rlvr/verifiers', 'rlvr/envs'))]
    assert len(modules) > 15
    code = ('import importlib, sys\n'
            f'for name in {modules!r}:\n'
            '  importlib.import_module(name)\n'
            '  loaded = [m for m in ("jax", "jaxlib", "flax", "optax") if m in sys.modules]\n'
            '  assert not loaded, f"{name} imports {loaded}"\n')
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class TestLayers:

  def test_only_host_code_imports_host_code(self):
    bad = {module_name(path): found for path in files('rlvr')
           if ROOT / 'rlvr' / 'host' not in path.parents
           and (found := under(imports(path.read_text()), 'rlvr.host', 'experiments', 'launch'))}
    assert not bad

  def test_kernels_stand_alone(self):
    allowed = ('jax', 'numpy', 'ml_dtypes', 'kernels')
    for path in files('kernels'):
      names = imports(path.read_text())
      foreign = names - under(names, *allowed, *sys.stdlib_module_names)
      assert not foreign, f'{module_name(path)}: {foreign}'

  def test_the_scan_sees_what_it_looks_for(self):
    source = 'def f():\n  from rlvr.host import loop\nimport jax.numpy as jnp\n'
    assert under(imports(source), 'rlvr.host') == {'rlvr.host', 'rlvr.host.loop'}
    assert under(imports(source), 'rlvr.hos') == set()


class TestFiles:

  def test_one_idea_a_file(self):
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines())
               for path in files('rlvr', 'kernels', 'experiments', 'launch')}
    assert len(lengths) > 50
    assert not {name: n for name, n in lengths.items() if n > MAX_LINES}


class TestNames:

  @pytest.mark.parametrize('stage', tables.TABLES)
  def test_a_name_in_a_table_is_the_functions(self, stage):
    for name, part in tables.TABLES[stage].items():
      assert part.__name__ == name

  def test_a_name_means_one_part(self):
    places = collections.defaultdict(list)
    for stage, table in tables.TABLES.items():
      for name in table:
        places[name].append(stage)
    places.pop('none')  # every stage may have its own way of doing nothing
    assert not {name: stages for name, stages in places.items() if len(stages) > 1}
