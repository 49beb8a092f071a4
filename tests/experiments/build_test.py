"""Tests of experiments.build."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import build
from experiments import sampling
from experiments import tables
from experiments.configs import base
from rlvr import losses
from rlvr import spec
from rlvr import testing
from rlvr import types


def config(arg='size=tiny', **changes):
  c = base.get_config(arg)
  c.model.warm_start_steps = 0
  c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return c


class TestResolveRecipe:

  def test_each_term_has_the_runs_average_unless_it_has_its_own(self):
    c = config('size=tiny,losses.kl=kl_loss,aggregate=seq_sum_constant',
               aggregate__constant=7.0)
    recipe = build.resolve_recipe(c)
    assert set(recipe.terms) == {'pg', 'kl'}
    for term in recipe.terms.values():
      assert term.aggregate.keywords == {'constant': 7.0}
    c.losses.kl.aggregate = spec.spec(tables.TABLES['aggregate']['seq_sum'])
    recipe = build.resolve_recipe(c)
    assert recipe.terms['kl'].aggregate.func.__name__ == 'seq_sum'
    assert recipe.terms['pg'].aggregate.func.__name__ == 'seq_sum_constant'

  def test_options_reach_the_part_inside_a_part(self):
    c = config(losses__pg__term__clip__high=.4)
    surrogate = build.resolve_recipe(c).terms['pg'].loss
    # exp(0.3) = 1.35 is inside 1.4 and outside the default: the gradient tells.
    def gradient(term):
      cell = testing.make_cell([1.0], old_logp=[[-1.3]])
      total = lambda logp: jnp.sum(term(testing.make_output(logp), cell, {})[0])
      return float(jax.grad(total)(jnp.array([[-1.0]]))[0, 0])
    assert gradient(surrogate) == pytest.approx(-np.exp(.3), rel=1e-5)
    assert gradient(build.resolve_recipe(config()).terms['pg'].loss) == 0

  @pytest.mark.parametrize('arg, changes, expected', [
      ('size=tiny', {}, (False, False, True)),
      ('size=tiny', {'batch__epochs': 2}, (True, False, True)),
      ('size=tiny', {'batch__minibatches': 2}, (True, False, True)),
      ('size=tiny', {'score_old': 'always'}, (True, False, True)),
      ('size=tiny,correction=token_truncated', {}, (True, False, True)),
      ('size=tiny,losses.kl=kl_loss', {}, (False, True, False)),
      ('size=tiny,losses.entropy=entropy_bonus', {}, (False, False, False)),
      ('size=tiny,reward=kl_in_reward', {'score_first': True}, (False, True, True)),
      ('size=tiny,reward=overlong_penalty,reward.base=kl_in_reward', {'score_first': True},
       (False, True, True)),
  ])
  def test_what_is_scored_and_what_may_be_left_out(self, arg, changes, expected):
    recipe = build.resolve_recipe(config(arg, **changes))
    assert (recipe.score_old, recipe.score_ref, recipe.advantage_only) == expected

  @pytest.mark.parametrize('slot, name, known', [
      ('advantage', 'grpoo', "Did you mean 'grpo'?"), ('reward', 'x', 'outcome'),
      ('aggregate', 'seq_summ', "Did you mean 'seq_sum'?")])
  def test_an_unknown_name(self, slot, name, known):
    c = config()
    c[slot].name = name
    with pytest.raises(ValueError, match=f'config.{slot}: unknown name {name!r}.*{known}'):
      build.resolve_recipe(c)

  def test_options_left_behind_by_a_name_swapped_by_flag(self):
    c = config()
    c.advantage.name = 'rloo'
    with pytest.raises(ValueError, match="rloo has no option 'ddof'.*:advantage=rloo"):
      build.resolve_recipe(c)


class TestMakeLayout:

  @pytest.mark.parametrize('prompts, responses, cell_rows, expected', [
      (8, 8, 16, (4, 16, 2)), (8, 8, 64, (1, 64, 8)), (3, 5, 16, (1, 15, 3)),
      (5, 4, 10, (3, 8, 2)), (1, 4, 100, (1, 100, 25))])
  def test_whole_groups_and_room_for_all(self, prompts, responses, cell_rows, expected):
    c = config(rollout__prompts=prompts, rollout__responses=responses,
               batch__cell_rows=cell_rows)
    layout = build.make_layout(c)
    assert (layout.cells, layout.rows, layout.prompts) == expected
    assert layout.devices == len(jax.devices())
    assert layout.cells * layout.rows * layout.devices >= prompts * responses


class TestBuild:

  def test_resolves_without_touching_the_disk(self, tmp_path):
    run, model = build.build(config(), tmp_path / 'run')
    assert not (tmp_path / 'run').exists()
    assert run.compiles.count == 0  # shapes were traced, nothing counts as a program
    assert model.config.vocab_size == 259

  def test_no_two_leaves_share_a_buffer_and_init_repeats(self):
    """An anchor that is the params could not be donated; an init after a run must be new."""
    run, _ = build.build(config('size=tiny,losses.kl=kl_loss'), None)
    state, again = run.init(), run.init()
    arrays = [x for s in (state, again) for x in jax.tree.leaves(s)
              if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    pointers = [x.addressable_data(0).unsafe_buffer_pointer() for x in arrays if x.size]
    assert len(set(pointers)) == len(pointers)
    for x, y in zip(jax.tree.leaves(state.anchors['ref']), jax.tree.leaves(state.params),
                    strict=True):
      np.testing.assert_array_equal(x, y)
    for x, y in zip(jax.tree.leaves(state.params), jax.tree.leaves(again.params), strict=True):
      np.testing.assert_array_equal(x, y)
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert shapes(state) == shapes(run.abstract)

  def test_the_seed_makes_the_weights(self):
    one, other = (build.build(config(seed=s), None)[0].init().params for s in (0, 1))
    assert any((np.asarray(x) != np.asarray(y)).any() for x, y in zip(
        jax.tree.leaves(one), jax.tree.leaves(other), strict=True))

  @pytest.mark.parametrize('arg, changes, sentence', [
      ('size=tiny,aggregate=seq_sum_constant', {'aggregate__constant': 0.0}, 'constant=0.0'),
      ('size=tiny,reward=overlong_penalty', {'reward__factor': -1.0}, 'factor=-1.0'),
      ('size=tiny', {'losses__pg__term__clip__low': -.1}, 'low=-0.1'),
      ('size=tiny', {'optimizer__b1': 1.0}, 'b1=1.0'),
      ('size=tiny', {'env__num_held_out': 1000}, 'num_held_out is 1000'),
      ('size=tiny', {'rollout__prompt_buckets': (4,)}, 'prompt of task 0 has 5 tokens'),
      ('size=tiny', {'model__path': '/nowhere'}, '/nowhere does not exist'),
  ])
  def test_what_cannot_work_is_found_here(self, arg, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
      build.build(config(arg, **changes), None)

  def test_the_state_and_batches_start_where_update_leaves_them(self):
    """Else each program is compiled a second time in the second step."""
    run, _ = build.build(config(rollout__prompts=2, rollout__responses=2,
                                batch__cell_rows=4, eval__pass_at=(1,)), None)
    state = run.init()
    placed = jax.tree.map(lambda x: x.sharding, state)
    rollout = _random_rollout(run.config)
    batches, _, _ = run.prepare(rollout, state)
    state, _ = run.update(state, batches[0])
    assert jax.tree.map(lambda x: x.sharding, state) == placed
    count = run.compiles.count
    batches, _, _ = run.prepare(rollout, state)
    run.update(state, batches[0])
    assert run.compiles.count == count == 2


def _random_rollout(c):
  """A graded rollout of the run's shapes, right and wrong in turn."""
  shapes = sampling.abstract_rollout(c, c.rollout.prompt_buckets[0])
  rollout = testing.make_rollout(
      [[1, 0]] * c.rollout.prompts, lengths=[c.rollout.max_tokens] * shapes.where.shape[0],
      prompts=[[1, 2]] * c.rollout.prompts)
  width = shapes.prompts.tokens.shape[1]
  prompts = rollout.prompts.replace(tokens=jnp.zeros(shapes.prompts.tokens.shape, jnp.int32),
                                    length=jnp.full(c.rollout.prompts, width, jnp.int32))
  optional = ('reward', 'old_logp', 'ref_logp', 'value', 'entropy')
  return rollout.replace(prompts=prompts, **dict.fromkeys(optional))


class TestAbstractRollout:

  def test_is_what_a_round_gives(self):
    c = config(rollout__prompts=2, rollout__responses=2)
    given, said = _random_rollout(c), sampling.abstract_rollout(c, 8)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), given) == jax.tree.map(
        lambda x: (x.shape, x.dtype), said)
    assert isinstance(said, types.Rollout)


class TestFingerprint:

  def test_names_what_a_checkpoint_must_share(self):
    one = build.fingerprint(config())
    assert one == build.fingerprint(config(num_steps=7, run_dir='other'))
    for change in ({'seed': 1}, {'model__tiny': 'micro'}, {'optimizer__b1': .5},
                   {'losses__pg__coef': 2.0}, {'env__seed': 3}):
      assert one != build.fingerprint(config(**change)), change

  def test_a_loss_with_options_is_in_it(self):
    assert build.fingerprint(config())['losses']['pg']['term']['name'] == losses.surrogate.__name__
