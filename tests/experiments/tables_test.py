"""Tests of experiments.tables."""

import inspect
import sys

import pytest
from absl import flags
from ml_collections import config_flags

from experiments import tables
from experiments.configs import base
from rlvr import masks
from rlvr import spec


class TestTables:

  def test_a_name_is_one_part_across_tables(self):
    """`none` alone may stand in several."""
    owners = {}
    for table in tables.TABLES.values():
      for name, part in table.items():
        owners.setdefault(name, set()).add(part)
        assert name == part.__name__
    assert [name for name, parts in owners.items() if len(parts) > 1 and name != 'none'] == []

  @pytest.mark.parametrize('stage', sorted(tables.TABLES))
  def test_every_part_fits_into_a_config_and_comes_back(self, stage):
    for part in tables.TABLES[stage].values():
      config = spec.spec(part)
      resolved = spec.resolve(tables.TABLES, config, 'config.x', stage)
      assert resolved.func is part and set(resolved.keywords) == set(spec.options_of(part))
      assert inspect.getdoc(part), part


class TestParse:

  def test_worked(self):
    assert tables.parse('advantage=rloo, size=tiny,') == {'advantage': 'rloo', 'size': 'tiny'}
    assert tables.parse(None) == tables.parse('') == {}

  @pytest.mark.parametrize('arg', ['tiny', '=tiny', 'size=', 'a=b,c'])
  def test_a_piece_that_is_no_assignment(self, arg):
    with pytest.raises(ValueError, match='no NAME=VALUE'):
      tables.parse(arg)

  def test_a_name_given_twice(self):
    with pytest.raises(ValueError, match="'size' is given twice"):
      tables.parse('size=tiny,size=full')


def choose(arg):
  return tables.choose(base.defaults(), arg)


class TestChoose:

  def test_another_part_comes_with_its_own_options(self):
    c = choose('advantage=rloo')
    assert c.advantage.to_dict() == {'name': 'rloo'}
    assert c.optimizer.name == base.defaults().optimizer.name

  def test_a_slot_inside_a_part(self):
    c = choose('losses.pg.term.clip=no_clip,losses.pg.mask=policy_tokens')
    assert c.losses.pg.term.clip.name == 'no_clip' and c.losses.pg.term.name == 'surrogate'
    assert c.losses.pg.mask.name == 'policy_tokens'

  def test_a_term_is_added_or_replaced(self):
    c = choose('losses.kl=kl_loss,losses.pg=policy_gradient')
    assert {name: entry.term.name for name, entry in c.losses.items()} == {
        'kl': 'kl_loss', 'pg': 'policy_gradient'}
    assert c.losses.kl.coef == 1.0 and 'aggregate' not in c.losses.kl  # it shares the run's

  def test_an_option_that_is_a_part_by_another_name(self):
    c = choose('env=questions,env.verifier=exact,reward=overlong_penalty,reward.base=outcome')
    assert c.env.verifier.name == 'exact' and c.reward.base.name == 'outcome'

  @pytest.mark.parametrize('arg, parts', [
      ('advantage=rlo', ('config.advantage', "Did you mean 'rloo'?")),
      ('advantag=rloo', ("no part 'advantag'", "Did you mean 'advantage'?")),
      ('losses.pq.term=surrogate', ("no part 'pq'", 'Known: pg.')),
      ('losses.pg.term.clp=no_clip', ("no part 'clp'", "Did you mean 'clip'?")),
      ('num_steps=3', ("no part 'num_steps'",)),
      ('rollout=grpo', ('section of options',)),
  ])
  def test_a_slot_or_a_name_that_is_not_there(self, arg, parts):
    with pytest.raises(ValueError) as raised:
      choose(arg)
    for part in parts:
      assert part in str(raised.value)


class TestTerm:

  def test_an_aggregate_of_its_own(self):
    part = spec.spec(tables.TABLES['loss']['kl_loss'])
    shared, own = tables.term(part), tables.term(part, coef=.1, aggregate=spec.spec(
        tables.TABLES['aggregate']['seq_sum']))
    assert 'aggregate' not in shared and own.aggregate.name == 'seq_sum' and own.coef == .1
    assert shared.mask.name == masks.policy_tokens.__name__


class TestPartNames:

  def test_all_parts_inside(self):
    c = choose('reward=overlong_penalty,reward.base=kl_in_reward')
    assert tables.part_names(c.reward) == {'overlong_penalty', 'kl_in_reward', 'outcome'}
    assert {'surrogate', 'token_ratio', 'ppo_clip'} <= tables.part_names(c.losses)


class TestPlaceholders:

  def test_an_option_without_a_default_can_be_set_by_flag(self, monkeypatch):
    """A plain None could not: its flag has no type."""
    argv = ['run.py', '--config=experiments/configs/base.py', '--config.env.num_train=50']
    monkeypatch.setattr(sys, 'argv', argv)
    values = flags.FlagValues()
    config_flags.DEFINE_config_file('config', flag_values=values)
    values(argv)
    assert values.config.env.num_train == 50
    assert base.defaults().env.num_train is None
    env = spec.resolve(tables.TABLES, values.config.env, 'config.env', 'env')()
    assert len(env.train) == 50

  def test_left_alone_it_is_none_where_it_is_read(self):
    assert spec.resolve(tables.TABLES, base.defaults().env, 'config.env', 'env').keywords[
        'num_train'] is None
