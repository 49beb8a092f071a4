"""What a user got wrong, in one sentence.

ml_collections reads the config file while flags are parsed, and reports its
faults as tracebacks inside messages, or as the bare name that was not found.
"""

import pathlib
import re
import runpy

import ml_collections
from absl import flags

from rlvr import spec

_CONFIGS = 'experiments/configs'


def parse_flags(argv: list[str]) -> list[str]:
  """absl's parser, with one sentence for what a config file or flag got wrong."""
  asks_help = any(re.fullmatch('--?(h|help|helpfull|helpshort|helpxml)', arg) for arg in argv)
  missing = '' if asks_help else missing_config(argv[1:])
  if missing:
    raise SystemExit(f'error: {missing}')
  try:
    return flags.FLAGS(argv)
  except (AttributeError, KeyError, TypeError, ValueError, flags.Error, OSError) as error:
    raise SystemExit(f'error: {explain(error, argv[1:])}') from error


def explain(error: BaseException, argv: list[str]) -> str:
  """One sentence on why parsing `argv` raised `error`."""
  missing = missing_config(argv)
  if missing:
    return missing
  path, _, argument = _config_value(argv).partition(':')
  try:
    config = runpy.run_path(path)['get_config'](argument or None)
  except Exception as fault:  # a config file is a program: any fault is named as it is
    kind = '' if isinstance(fault, ValueError) else f'{path} raises {type(fault).__name__}: '
    return kind + str(fault)
  for flag in argv:
    match = re.match(r'--?config\.([^=]+)(?:=(.*))?', flag, re.DOTALL)
    sentence = match and (_unknown_option(config, match[1]) or _wrong_type(config, *match.groups()))
    if sentence:
      return sentence
  return str(error)


def missing_config(argv: list[str]) -> str:
  """One sentence where no config is named, or a file that is not there; else ''."""
  value = _config_value(argv)
  if not value:
    return ('the config is missing; give one, as in '
            f'--config={_CONFIGS}/quickstart.py.{_known_files(_CONFIGS, "")}')
  path = pathlib.Path(value.partition(':')[0])
  if not path.is_file():
    return f'there is no config file {path}.{_known_files(str(path.parent), path.name)}'
  return ''


def without_number(error: BaseException) -> str:
  """The error's text without the '[Errno 28]' that Python puts before it."""
  return re.sub(r'^\[Errno \d+\] ', '', str(error))


def _config_value(argv):
  for place, flag in enumerate(argv):
    match = re.fullmatch(r'--?config(?:=(.*))?', flag, re.DOTALL)
    if match:
      return ''.join(argv[place + 1:place + 2]) if match[1] is None else match[1]
  return ''


def _known_files(folder, name):
  files = [p.name for p in pathlib.Path(folder).glob('*.py') if p.name != '__init__.py']
  return spec.did_you_mean(name, files) if files else ''


def _wrong_type(config, path, text):
  """A value that does not fit the option's type; '' where it does, or is not a number."""
  value = config
  for key in path.split('.'):
    value = value[key]
  kind = type(value)
  fits = {bool: r'(?i)true|false|t|f|yes|no|y|n|1|0', int: r'[+-]?\d+',
          float: r'[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|[+-]?inf)'}.get(kind)
  if text is None or fits is None or re.fullmatch(fits, text.strip()):
    return ''
  names = {bool: 'True or False', int: 'a whole number', float: 'a number'}
  return f'--config.{path}={text}: it must be {names[kind]}, like {value}.'


def _unknown_option(config, path):
  """Walks a dotted path as far as it goes; '' where it arrives at a value."""
  section, walked = config, 'config'
  for key in path.split('.'):
    if not isinstance(section, ml_collections.ConfigDict):
      return f'--config.{path}: {walked} is a value, it has no option {key!r}.'
    if key not in section:
      return f'--config.{path}: {walked} has no option {key!r}.{spec.did_you_mean(key, section)}'
    section, walked = section[key], f'{walked}.{key}'
  if isinstance(section, ml_collections.ConfigDict):
    return (f'--config.{path}: {walked} is a section; set one of its options, or name another '
            f'part in the config argument, as in ":{path}=NAME".')
  return ''
