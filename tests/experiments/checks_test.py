"""Tests of experiments.checks."""

import pytest

from experiments import checks
from experiments.configs import base


def config(arg='size=tiny', **changes):
  c = base.get_config(arg)
  c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return c


class TestCheck:

  def test_the_defaults_pass(self):
    checks.check(base.get_config())
    checks.check(config())

  @pytest.mark.parametrize('name, least', [
      ('num_steps', 0), ('rollout__prompts', 1), ('rollout__responses', 1),
      ('rollout__max_tokens', 1), ('rollout__slots', 1), ('rollout__slots_per_prompt', 1),
      ('rollout__max_rounds', 1), ('batch__epochs', 1), ('batch__minibatches', 1),
      ('verify__num_workers', 1), ('model__head_chunk', 1), ('eval__prompts', 0),
      ('eval__every', 0), ('checkpoint__every', 0), ('log__rollouts_every', 0),
      ('parallel__fsdp', 1), ('model__warm_start_steps', 0)])
  def test_counts_have_a_least_value(self, name, least):
    path = name.replace('__', '.')
    with pytest.raises(ValueError, match=f'config.{path} is {least - 1}; .* at least {least}'):
      checks.check(config(**{name: least - 1}))

  @pytest.mark.parametrize('changes, parts', [
      ({'rollout__prompt_buckets': ()}, ('prompt_buckets is ()',)),
      ({'rollout__prompt_buckets': (8, 8)}, ('ascending',)),
      ({'rollout__prompt_buckets': (0, 8)}, ('whole numbers above 0',)),
      ({'rollout__prompt_buckets': (8.5,)}, ('whole numbers above 0',)),
      ({'rollout__temperature': float('nan')}, ('temperature is nan',)),
      ({'rollout__slots': 10}, ('slots is 10', 'multiple of slots_per_prompt 8')),
      ({'batch__cell_rows': 7}, ('cell_rows is 7', 'whole group')),
      ({'eval__pass_at': (0,)}, ('pass_at is (0,)',)),
      ({'eval__pass_at': (1, 8)}, ('k is at most 7',)),
      ({'score_old': 'never'}, ("score_old is 'never'", 'auto, always')),
      ({'parallel__kind': 'tmap'}, ("kind is 'tmap'", 'pmap, mesh')),
      ({'parallel__fsdp': 2}, ('parallel.fsdp is 2', 'mesh')),
      ({'model__compute_dtype': 'float16'}, ("compute_dtype is 'float16'",)),
  ])
  def test_values_out_of_range_are_named(self, changes, parts):
    with pytest.raises(ValueError) as raised:
      checks.check(config(**changes))
    for part in parts:
      assert part in str(raised.value)
    assert '\n' not in str(raised.value)

  @pytest.mark.parametrize('advantage', ['grpo', 'dr_grpo', 'rloo'])
  def test_a_group_baseline_needs_two_responses(self, advantage):
    changes = {'rollout__responses': 1, 'rollout__slots_per_prompt': 1, 'eval__pass_at': (1,)}
    with pytest.raises(ValueError, match=f'responses is 1, .*{advantage}.* at least 2'):
      checks.check(config(f'size=tiny,advantage={advantage}', **changes))
    checks.check(config('size=tiny,advantage=reinforce', **changes))

  def test_pass_at_is_not_looked_at_without_an_evaluation(self):
    checks.check(config(eval__pass_at=(1, 100), eval__prompts=0))

  @pytest.mark.parametrize('arg', [
      'reward=kl_in_reward', 'reward=overlong_penalty,reward.base=kl_in_reward'])
  def test_a_reward_that_reads_scores_needs_them_first(self, arg):
    with pytest.raises(ValueError, match='--config.score_first=True'):
      checks.check(config(f'size=tiny,{arg}'))
    checks.check(config(f'size=tiny,{arg}', score_first=True))

  def test_a_run_needs_a_loss(self):
    c = config()
    del c.losses['pg']
    with pytest.raises(ValueError, match='config.losses is empty'):
      checks.check(c)


def test_k1_as_a_loss_is_warned_of(monkeypatch):
  said = []
  monkeypatch.setattr(checks.logging, 'warning', lambda form, *args: said.append(form % args))
  c = base.get_config('size=tiny,losses.kl=kl_loss')
  checks.check(c)
  assert not said
  checks.check(base.get_config('size=tiny,losses.kl=kl_loss,losses.kl.term.estimator=k1'))
  assert len(said) == 1 and 'config.losses.kl: k1 as a loss' in said[0]
