"""The README's code blocks run, its files and parts exist."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys

import pytest

from experiments import tables

_ROOT = pathlib.Path(__file__).parents[1]
_TEXT = (_ROOT / 'README.md').read_text(encoding='utf-8')
_METHODS = (_ROOT / 'docs/methods.md').read_text(encoding='utf-8')
_BLOCKS = re.findall(r'^```(\w+)\n(.*?)^```$', _TEXT, flags=re.DOTALL | re.MULTILINE)
_SHELL = [text for language, text in _BLOCKS if language == 'bash']
_PYTHON = [text for language, text in _BLOCKS if language == 'python']


def test_every_block_is_run_by_a_test():
  assert len(_SHELL) + len(_PYTHON) == len(_BLOCKS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize('block', _SHELL, ids=lambda block: block.splitlines()[0][:40])
def test_shell_block_runs(block, tmp_path):
  """In a folder of its own that sees the project's files; make only resolves its targets."""
  for name in ('experiments', 'tests', 'Makefile', 'setup.py'):
    (tmp_path / name).symlink_to(_ROOT / name)
  script = re.sub(r'^make ', 'make -n ', block, flags=re.MULTILINE)
  bin_dir = tmp_path / 'bin'
  bin_dir.mkdir()
  (bin_dir / 'python').symlink_to(sys.executable)
  python_path = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
  environ = os.environ | {
      'PATH': f'{bin_dir}{os.pathsep}{os.environ["PATH"]}', 'PYTHONPATH': python_path}
  done = subprocess.run(['bash', '-euo', 'pipefail', '-c', script], cwd=tmp_path, env=environ,
                        capture_output=True, text=True, timeout=500)
  assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('block', _PYTHON)
def test_python_block_prints_what_its_comments_say(block):
  out = io.StringIO()
  with contextlib.redirect_stdout(out):
    exec(compile(block, 'README.md', 'exec'), {})
  assert '0.99999' in out.getvalue() and '0.6666' in out.getvalue()


def test_linked_and_quoted_files_exist():
  paths = re.findall(r'\]\(([^)#:]+)\)|`((?:rlvr|experiments)/[^`]+)`', _TEXT)
  paths = [linked or quoted for linked, quoted in paths]
  assert len(paths) > 8
  for path in paths:
    assert (_ROOT / path).exists(), path


def test_part_tables_are_complete():
  """A part that is added must be in the index, and nothing else may be."""
  for stage, table in tables.TABLES.items():
    row = next(line for line in _METHODS.splitlines() if line.startswith(f'| {stage} |'))
    assert set(re.findall(r'`(\w+)`', row)) == set(table), stage


def test_every_config_is_in_the_index():
  named = re.findall(r'\[(\w+)\]\(\.\./experiments/configs/(\w+)\.py\)', _METHODS)
  assert all(text == file for text, file in named)
  files = {p.stem for p in (_ROOT / 'experiments/configs').glob('*.py')}
  assert {file for _, file in named} == files - {'__init__', 'base', 'quickstart'}
