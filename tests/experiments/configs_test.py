"""Tests of experiments/configs: every file is a run, and says how to start it."""

import ast
import importlib
import json
import pathlib
import shutil
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from absl import flags
from ml_collections import config_flags

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import commands  # noqa: E402

from experiments import build  # noqa: E402
from experiments import checks  # noqa: E402
from experiments.configs import base  # noqa: E402
from experiments.configs import dapo  # noqa: E402
from experiments.configs import dr_grpo  # noqa: E402
from experiments.configs import rloo  # noqa: E402

FOLDER = commands.ROOT / 'experiments' / 'configs'
NAMES = sorted(p.stem for p in FOLDER.glob('*.py') if p.stem != '__init__')
SMALL = ('--config.num_steps=2', '--config.eval.prompts=0', '--config.log.tensorboard=False',
         '--config.model.warm_start_steps=5', '--config.rollout.prompts=2',
         '--config.rollout.responses=4')


def parsed(monkeypatch, *argv):
  """The config of a command line."""
  argv = ['run.py', *argv]
  monkeypatch.setattr(sys, 'argv', argv)
  values = flags.FlagValues()
  config_flags.DEFINE_config_file('config', flag_values=values)
  values(argv)
  return values.config


def saved_state(path):
  """Every array of a checkpoint by name."""
  with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
    tree = reader.restore(path, args=ocp.args.Composite(state=ocp.args.StandardRestore())).state
  raw = lambda x: jax.random.key_data(x) if jax.dtypes.issubdtype(
      x.dtype, jax.dtypes.prng_key) else x
  return {jax.tree_util.keystr(name): np.asarray(raw(leaf))
          for name, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


@pytest.fixture(name='server', scope='module')
def _server():
  with commands.Commands() as server:
    yield server


class TestEveryFile:

  @pytest.mark.parametrize('name', NAMES)
  def test_its_docstring_holds_its_command(self, name):
    text = ast.get_docstring(ast.parse((FOLDER / f'{name}.py').read_text()), clean=False)
    assert f'\n    python -m experiments.run --config=experiments/configs/{name}.py' in text
    if name not in ('base',):
      assert 'arXiv' in text and 'Expect' in text

  @pytest.mark.parametrize('size', ['full', 'tiny'])
  @pytest.mark.parametrize('name', NAMES)
  def test_its_parts_resolve(self, name, size):
    c = importlib.import_module(f'experiments.configs.{name}').get_config(f'size={size}')
    checks.check(c)
    recipe = build.resolve_recipe(c)
    build.resolve_optimizer(c)
    assert recipe.terms and set(recipe.terms) == set(c.losses)
    assert build.make_layout(c).rows % c.rollout.responses == 0
    assert set(c) == set(base.get_config())  # no options of its own
    assert c.run_dir != base.get_config().run_dir or name != 'quickstart'

  @pytest.mark.slow
  @pytest.mark.parametrize('name, more', [(name, ()) for name in NAMES] + [
      ('grpo', ('losses.kl=kl_loss',)),
      ('rloo', ('reward=kl_in_reward', '--config.score_first')),
      ('grpo', ('correction=token_truncated,losses.entropy=entropy_bonus',))])
  def test_it_trains_two_steps_and_resumes_bit_equal(self, server, tmp_path, name, more):
    parts = ','.join(['size=tiny', *(m for m in more if not m.startswith('--'))])
    command = (
        f'--config=experiments/configs/{name}.py:{parts}', *SMALL,
        *(m for m in more if m.startswith('--')), '--config.checkpoint.every=1',
        f'--config.run_dir={tmp_path / "run"}')
    done = server.run(tmp_path, *command)
    assert done.code == 0, done.error
    rows = [json.loads(line) for line in (tmp_path / 'run/metrics.jsonl').read_text().splitlines()]
    assert [row['step'] for row in rows] == [1, 2]
    assert rows[0]['compiles'] == rows[1]['compiles'] == 3
    trained = [row for row in rows if not row['skipped']]
    for row in trained:
      assert row['grad_norm'] >= 0
      # An averaged old policy lags behind the sampler by design.
      assert name == 'ppo_ewma_decoupled' or abs(row['mismatch_kl']) < 1e-9
    if 'losses.kl=kl_loss' in more:  # in the first step the policy is the reference
      assert trained[0]['kl/loss'] == 0

    # What a kill after the first checkpoint leaves; the same command goes on from it.
    checkpoints = tmp_path / 'run/checkpoints'
    whole = saved_state(checkpoints / '2')
    shutil.rmtree(checkpoints / '2')
    (tmp_path / 'again').mkdir()
    done = server.run(tmp_path / 'again', *command)
    assert done.code == 0, done.error
    again = saved_state(checkpoints / '2')
    assert whole.keys() == again.keys() and len(whole) > 10
    for leaf, value in whole.items():
      np.testing.assert_array_equal(again[leaf], value, err_msg=leaf)


class TestNumbersThatFollowAnother:

  def test_dr_grpos_constant_is_the_response_limit(self, monkeypatch):
    path = '--config=experiments/configs/dr_grpo.py'
    assert parsed(monkeypatch, path).aggregate.constant == base.get_config().rollout.max_tokens
    c = parsed(monkeypatch, f'{path}:size=tiny')
    assert c.aggregate.constant == 4.0 and isinstance(c.aggregate.constant, float)
    c = parsed(monkeypatch, path, '--config.rollout.max_tokens=100')
    assert c.aggregate.constant == 100.0

  def test_dapos_ramp_is_the_last_fifth_of_the_response_limit(self, monkeypatch):
    path = '--config=experiments/configs/dapo.py'
    c = parsed(monkeypatch, path, '--config.rollout.max_tokens=20480')
    assert (c.reward.max_tokens, c.reward.cache_tokens) == (20480, 4096)
    c = parsed(monkeypatch, f'{path}:size=tiny')
    assert (c.reward.max_tokens, c.reward.cache_tokens) == (4, 1)

  def test_a_flag_may_still_part_them(self, monkeypatch):
    c = parsed(monkeypatch, '--config=experiments/configs/dr_grpo.py',
               '--config.aggregate.constant=12.5', '--config.rollout.max_tokens=7')
    assert c.aggregate.constant == 12.5 and c.rollout.max_tokens == 7


class TestMethods:

  def test_dr_grpo(self):
    c = dr_grpo.get_config()
    assert (c.advantage.name, c.aggregate.name) == ('dr_grpo', 'seq_sum_constant')

  def test_rloo(self):
    c = rloo.get_config()
    assert (c.advantage.name, c.aggregate.name, c.losses.pg.term.name) == (
        'rloo', 'seq_sum', 'policy_gradient')

  def test_dapo(self):
    c = dapo.get_config()
    assert (c.losses.pg.term.clip.low, c.losses.pg.term.clip.high) == (0.2, 0.28)
    assert (c.aggregate.name, c.reward.name, c.rollout.max_rounds) == (
        'token_mean', 'overlong_penalty', 4)

  def test_what_the_argument_names_wins_over_the_file(self):
    c = dapo.get_config('aggregate=seq_sum,losses.pg.term.clip=no_clip,reward=outcome')
    assert (c.aggregate.name, c.losses.pg.term.clip.name, c.reward.name) == (
        'seq_sum', 'no_clip', 'outcome')
