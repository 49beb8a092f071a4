"""Parts in a config: every option visible, every mistake answered with a name."""

import functools

import ml_collections
import pytest
from ml_collections import config_dict

from rlvr import spec


def plain(x):
  return x


def scaled(x, *, by: float = 2.0, name_of: str = 'a'):
  return by * x, name_of


def outer(x, *, inner=plain, most: int | None = None):
  return inner(x), most


def wrongly_typed(x, *, most=None):
  return x, most


TABLES = {'part': spec.make_table(plain, scaled), 'whole': spec.make_table(outer)}


class TestMakeTable:

  def test_names_are_the_functions(self):
    assert list(TABLES['part']) == ['plain', 'scaled']

  def test_a_repeat_is_refused(self):
    with pytest.raises(ValueError, match="'plain' is listed twice"):
      spec.make_table(plain, plain)


class TestSpec:

  def test_holds_every_option_with_its_default(self):
    assert spec.spec(scaled).to_dict() == {'name': 'scaled', 'by': 2.0, 'name_of': 'a'}
    assert spec.spec(scaled, by=3.0).by == 3.0

  def test_a_default_that_is_a_part_becomes_a_spec(self):
    assert spec.spec(outer).inner.to_dict() == {'name': 'plain'}
    assert spec.spec(outer, inner=spec.spec(scaled, by=5.0)).inner.by == 5.0

  def test_none_is_a_typed_placeholder(self):
    config = spec.spec(outer)
    assert config.most is None
    with pytest.raises(TypeError):
      config.most = 'many'
    config.most = 3
    assert config.most == 3
    with pytest.raises(ValueError, match="option 'most' defaults to None and must be annotated"):
      spec.spec(wrongly_typed)

  def test_an_unknown_option_is_answered_with_the_nearest(self):
    with pytest.raises(ValueError, match="scaled: unknown option 'bye'. Did you mean 'by'"):
      spec.spec(scaled, bye=1.0)

  def test_a_wrong_type_is_refused(self):
    config = spec.spec(scaled)
    with pytest.raises(TypeError):
      config.by = 'much'


class TestResolve:

  def _resolve(self, cfg, table='whole'):
    return spec.resolve(TABLES, cfg, f'config.{table}', table)

  def test_binds_the_options(self):
    assert self._resolve(spec.spec(scaled, by=3.0), 'part')(2.0) == (6.0, 'a')
    assert isinstance(self._resolve(spec.spec(scaled), 'part'), functools.partial)

  def test_an_option_that_is_a_part_comes_from_the_table_of_its_default(self):
    config = spec.spec(outer, inner=spec.spec(scaled, by=4.0))
    assert self._resolve(config)(1.0) == ((4.0, 'a'), None)

  def test_placeholders_resolve_to_none_until_set(self):
    config = spec.spec(outer)
    config.most = 7
    assert self._resolve(config)(1.0) == (1.0, 7)

  def test_unknown_names_and_options_are_answered_with_path_and_nearest(self):
    config = spec.spec(outer)
    config.inner = ml_collections.ConfigDict({'name': 'scalde'})
    with pytest.raises(
        ValueError, match=r"config.whole.inner: unknown name 'scalde'. Did you mean 'scaled'\? "
                          r'Known: plain, scaled'):
      self._resolve(config)
    # A name swapped by flag leaves the old part's options behind.
    config = spec.spec(scaled)
    config.name = 'plain'
    with pytest.raises(ValueError, match='config.part.by: plain has no option .by.*'
                                         'name it in the config argument, as in ":part=plain"'):
      self._resolve(config, 'part')

  def test_a_section_without_a_name_is_no_part(self):
    with pytest.raises(ValueError, match="config.part: expected a part with a 'name'"):
      self._resolve(ml_collections.ConfigDict({'by': 1.0}), 'part')

  def test_a_placeholder_is_a_field_reference_until_read(self):
    config = ml_collections.ConfigDict({'name': 'outer', 'most': config_dict.placeholder(int)})
    assert self._resolve(config)(2.0) == (2.0, None)
