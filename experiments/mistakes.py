"""What a user got wrong, in one sentence.

ml_collections reads the config file while flags are parsed, and reports its
faults as tracebacks inside messages, or as the bare name that was not found.
"""

import pathlib
import re
import runpy

import ml_collections

from rlvr import spec

_CONFIGS = 'experiments/configs'


def explain(error: BaseException, argv: list[str]) -> str:
  """One sentence on why parsing `argv` raised `error`."""
  value = _config_value(argv)
  if value is None:
    return ('the config is missing; give one, as in '
            f'--config={_CONFIGS}/quickstart.py.{_known_files(_CONFIGS, "")}')
  path, _, argument = value.partition(':')
  if not pathlib.Path(path).is_file():
    folder = str(pathlib.Path(path).parent)
    return f'there is no config file {path}.{_known_files(folder, pathlib.Path(path).name)}'
  try:
    config = runpy.run_path(path)['get_config'](argument or None)
  except Exception as fault:  # a config file is a program: any fault is named as it is
    kind = '' if isinstance(fault, ValueError) else f'{path} raises {type(fault).__name__}: '
    return kind + str(fault)
  for flag in argv:
    match = re.match(r'--?config\.([^=]+)', flag)
    sentence = _unknown_option(config, match[1]) if match else ''
    if sentence:
      return sentence
  return str(error)


def without_number(error: BaseException) -> str:
  """The error's text without the '[Errno 28]' that Python puts before it."""
  return re.sub(r'^\[Errno \d+\] ', '', str(error))


def _config_value(argv):
  for flag, following in zip(argv, [*argv[1:], None], strict=True):
    match = re.fullmatch(r'--?config(?:=(.*))?', flag, re.DOTALL)
    if match:
      return following if match[1] is None else match[1]
  return None


def _known_files(folder, name):
  files = [p.name for p in pathlib.Path(folder).glob('*.py') if p.name != '__init__.py']
  return spec.did_you_mean(name, files) if files else ''


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
