"""Config names a combination: a function and its options, as a typed ConfigDict.

`spec(fn, **options)` writes a part into a config; `resolve(table, cfg, path)`
reads it back as a `functools.partial` of the function that the table lists
under that name. Every option of the function is visible in the config, with
its default, so a flag can override it and a log shows it.
"""

import difflib
import functools
import inspect
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import ml_collections
from ml_collections import config_dict

NAME = 'name'  # the key that holds the function's name inside a spec


def make_table(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
  """A stage's table: function name -> function. Raises: ValueError on a repeat."""
  table: dict[str, Callable[..., Any]] = {}
  for function in functions:
    if function.__name__ in table:
      raise ValueError(f'{function.__name__!r} is listed twice in one table.')
    table[function.__name__] = function
  return table


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
  """The keyword-only options of a part, with their defaults."""
  return {
      name: parameter.default
      for name, parameter in inspect.signature(function).parameters.items()
      if parameter.kind is inspect.Parameter.KEYWORD_ONLY
  }


def did_you_mean(word: str, known: Iterable[str]) -> str:
  """' Did you mean x? Known: a, b.' — the tail of every unknown-name error."""
  known = sorted(known)
  close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
  hint = f' Did you mean {close[0]!r}?' if close else ''
  return f'{hint} Known: {", ".join(known) or "none"}.'


def lookup(table: Mapping[str, Any], name: str, path: str) -> Any:
  """table[name], or a ValueError that names the path and the nearest entry."""
  if name not in table:
    raise ValueError(f'{path}: unknown name {name!r}.{did_you_mean(name, table)}')
  return table[name]


def spec(function: Callable[..., Any], **options: Any) -> ml_collections.ConfigDict:
  """A ConfigDict holding `function`'s name and all its options.

  Args:
    function: an entry of a stage's table; its options are its keyword-only
      arguments, each with a default.
    **options: the options to change; an option that is itself a part is given
      as a `spec`, and a default that is a function becomes one.

  Returns:
    {'name': ..., option: value, ...}. An option whose default is None is a
    typed placeholder where the annotation says its type, so a flag can set it.

  Raises:
    ValueError: an option the function does not have; names those it has.
  """
  known = options_of(function)
  for name in options:
    if name not in known:
      raise ValueError(
          f'{function.__name__}: unknown option {name!r}.{did_you_mean(name, known)}')
  result = ml_collections.ConfigDict({NAME: function.__name__})
  for name, default in known.items():
    value = options.get(name, default)
    if value is None:
      result[name] = _placeholder(function, name)
    elif callable(value):
      result[name] = spec(value)
    else:
      result[name] = value
  return result


def _placeholder(function, option):
  annotation = inspect.signature(function).parameters[option].annotation
  for kind in (bool, int, float, str):
    if annotation in (kind | None, f'{kind.__name__} | None'):
      return config_dict.placeholder(kind)
  raise ValueError(
      f'{function.__name__}: option {option!r} defaults to None and must be annotated as '
      f'"int | None" (or float, str, bool) so that a flag can set it.')


def resolve(
    tables: Mapping[str, Mapping[str, Callable[..., Any]]],
    cfg: Mapping[str, Any],
    path: str,
    table: str,
) -> Callable[..., Any]:
  """The function that a spec names, with its options bound.

  Args:
    tables: every stage's table, by stage name; an option whose value is itself
      a spec is resolved in the table that lists the option's default.
    cfg: what `spec` made, perhaps changed by flags.
    path: the config path, for messages ('config.advantage').
    table: the stage's name in `tables`.

  Returns:
    functools.partial(function, **options).

  Raises:
    ValueError: unknown name or option, with the nearest known one.
  """
  if NAME not in cfg:
    raise ValueError(f'{path}: expected a part with a {NAME!r}, got {dict(cfg)!r}.')
  function = lookup(tables[table], cfg[NAME], path)
  known = options_of(function)
  bound = {}
  for key, value in cfg.items():
    if key == NAME:
      continue
    if key not in known:
      raise ValueError(
          f'{path}.{key}: {function.__name__} has no option {key!r}.{did_you_mean(key, known)} '
          f'To change {path} to another part, name it in the config argument, as in '
          f'":{path.removeprefix("config.")}={function.__name__}".')
    if isinstance(value, (Mapping, ml_collections.ConfigDict)) and NAME in value:
      value = resolve(tables, value, f'{path}.{key}', _table_with(tables, known[key]))
    bound[key] = value
  return functools.partial(function, **bound)


def _table_with(tables, function):
  for name, table in tables.items():
    if table.get(getattr(function, '__name__', '')) is function:
      return name
  raise ValueError(f'No table lists {function!r}.')
