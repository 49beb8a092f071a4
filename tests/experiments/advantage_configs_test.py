"""What the configs of advantages say and refuse, beyond that each of them runs."""

import importlib
import sys

import pytest
from absl import flags
from ml_collections import config_flags

from experiments import build
from experiments import checks
from experiments.configs import dapo
from experiments.configs import grpo


def config(name, arg='size=tiny'):
  return importlib.import_module(f'experiments.configs.{name}').get_config(arg)


def parsed(monkeypatch, name, *argv):
  """The config of a command line."""
  argv = ['run.py', f'--config=experiments/configs/{name}.py:size=tiny', *argv]
  monkeypatch.setattr(sys, 'argv', argv)
  values = flags.FlagValues()
  config_flags.DEFINE_config_file('config', flag_values=values)
  values(argv)
  return values.config


class TestNumbers:

  def test_dapo_with_its_four_options_off_is_grpo(self):
    c = dapo.get_config('size=tiny,aggregate=seq_mean_token_mean,reward=outcome')
    c.losses.pg.term.clip.high = .2
    c.rollout.max_rounds = 1
    assert c.to_dict() == grpo.get_config('size=tiny').to_dict()

  def test_mc_grpo_samples_one_more_and_drops_one(self):
    c = config('mc_grpo')
    assert c.rollout.responses % 2 == 1 and c.selection.name == 'drop_pivot'
    assert c.rollout.slots == c.rollout.prompts * c.rollout.responses

  def test_the_compression_phase_is_the_middle_third(self, monkeypatch):
    c = parsed(monkeypatch, 'overthinking', '--config.num_steps=90')
    assert (c.advantage.start_step, c.advantage.end_step) == (30, 60)

  def test_the_separator_is_the_toys_byte(self):
    c = config('factorized_reward')
    model = build.Model(c)
    assert model.tokenizer.encode(';') == [c.advantage.split_token]
    assert c.advantage.base.split_token == c.advantage.split_token

  def test_a_route_can_be_given_as_a_flag(self, monkeypatch):
    c = parsed(monkeypatch, 'factorized_reward',
               '--config.advantage.base.route=((0,1,1),(0,1,1))')
    assert c.advantage.base.route == ((0, 1, 1), (0, 1, 1))

  @pytest.mark.parametrize('name, score_ref', [
      ('reinforce_pp', True), ('reinforce_pp_baseline', True), ('eapo', False)])
  def test_the_reference_is_scored_where_it_is_read(self, name, score_ref):
    assert build.resolve_recipe(config(name)).score_ref == score_ref


class TestRefusals:

  @pytest.mark.parametrize('name', [
      'grpo', 'mc_grpo', 'gdpo', 'arc', 'eapo', 'overthinking', 'konst_len',
      'reinforce_pp_baseline', 'factorized_reward'])
  def test_one_response_has_no_group_to_be_compared_with(self, name):
    c = config(name)
    c.rollout.responses, c.rollout.slots_per_prompt = 1, 1
    with pytest.raises(ValueError, match='needs at least 2 .advantage=reinforce_pp'):
      checks.check(c)

  @pytest.mark.parametrize('name', ['reinforce_pp', 'v0_5'])
  def test_some_need_none(self, name):
    c = config(name)
    c.rollout.responses, c.rollout.slots_per_prompt, c.rollout.extra_rows = 1, 1, 0
    checks.check(c)
