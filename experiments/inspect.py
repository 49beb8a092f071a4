"""Browse what a run generated, as text.

    python -m experiments.inspect RUN                       summary and table of steps
    python -m experiments.inspect RUN --step=12             that step's rollouts
    python -m experiments.inspect RUN --step=-1 --worst     the last step's, lowest reward first
    python -m experiments.inspect RUN --step=12 --sort=length --limit=3

Model text is shown with its control characters written as escapes, so that it
can neither move the cursor nor colour the terminal.
"""

import math
import os
import pathlib
import shutil
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import app
from absl import flags

from rlvr import spec
from rlvr.host import metrics as metrics_lib
from rlvr.host import progress
from rlvr.host import run_dir

_STEP = flags.DEFINE_integer(
    'step', None, 'Show the rollouts of this step; -1 is the last kept.')
_BEST = flags.DEFINE_bool('best', False, 'Highest reward first.')
_WORST = flags.DEFINE_bool('worst', False, 'Lowest reward first.')
_SORT = flags.DEFINE_string('sort', None, 'Order by this field, ascending: reward, length, ...')
_LIMIT = flags.DEFINE_integer(
    'limit', None, 'At most so many rollouts (5) or lines of the table (20).', 1)

_COLUMNS = ('reward', 'length', 'entropy', 'mismatch_kl', 'dead_groups', 'ungraded',
            'eval/accuracy')
_TEXTS = ('prompt', 'completion')


def summary(run: str, *, limit: int, width: int) -> str:
  """The run's config in short, and a table of at most `limit` steps, evenly spread.

  Raises:
    ValueError: the folder is no run, or its files are broken.
  """
  config = run_dir.flat_config(run_dir.read_config(run))
  steps = run_dir.rollout_steps(run)
  has_metrics = (pathlib.Path(run) / run_dir.METRICS).exists()
  rows = merge(metrics_lib.read(run)) if has_metrics else []
  lines = [progress.rule(progress.printable(str(run)), width=width)]
  parts = [f'{key.removesuffix(".name")}={value}' for key, value in config.items()
           if key.endswith('.name')]
  lines += [progress.wrap('  '.join(parts), width=width)] if parts else []
  kept = f'{len(steps)} files, steps {steps[0]} to {steps[-1]}' if steps else 'none'
  num_steps = sum(row['step'] > 0 for row in rows)
  lines += [f'{num_steps} steps; rollouts kept: {kept}', '']
  if not rows:
    return '\n'.join([*lines, 'No step has ended yet.'])
  names = [name for name in _COLUMNS if any(name in row for row in rows)]
  chosen = spread(rows, limit)
  if len(chosen) < len(rows):
    lines.append(f'{len(chosen)} of {len(rows)} steps, evenly spread; --limit={len(rows)} for all')
  lines.append('  '.join(['  step', *(f'{name:>11}' for name in names), ' rollouts']))
  for row in chosen:
    cells = [f'{row[name]:>11.4g}' if name in row else f'{"":>11}' for name in names]
    here = ' yes' if row['step'] in steps else ''
    lines.append('  '.join([f'{row["step"]:>6}', *cells, here]).rstrip())
  return '\n'.join(lines)


def rollouts(
    run: str, step: int, *, sort: str | None, descending: bool, limit: int, width: int) -> str:
  """One step's rollouts as text.

  Args:
    run: the run folder.
    step: which step; -1 is the last kept.
    sort: a field of the rows; None keeps their order.
    descending: largest first.
    limit: rows at most.
    width: columns.

  Returns:
    A heading with the reward's mean, then a block a row.

  Raises:
    ValueError: no such run, step or field.
  """
  run_dir.read_config(run)
  steps = run_dir.rollout_steps(run)
  step = steps[-1] if step == -1 and steps else step
  rows = run_dir.read_rollouts(run, step)
  shown = sort_rows(rows, sort, descending=descending)[:limit] if sort else rows[:limit]
  rewards = [float(row['reward']) for row in rows if isinstance(row.get('reward'), (int, float))]
  mean = f', mean reward {sum(rewards) / len(rewards):.3f} of {len(rewards)}' if rewards else ''
  order = f', by {sort} {"descending" if descending else "ascending"}' if sort else ''
  blocks = [f'step {step}: {len(rows)} rollouts{mean}; {len(shown)} shown{order}']
  place = {id(row): index for index, row in enumerate(rows)}
  blocks += [_block(row, place[id(row)], width) for row in shown]
  return '\n\n'.join(blocks)


def sort_rows(
    rows: Sequence[Mapping[str, Any]], field: str, *, descending: bool = False,
) -> list[Mapping[str, Any]]:
  """Rows by a field; those without a value (absent, null, NaN) come last either way.

  Raises:
    ValueError: no row has the field; names those there are.
  """
  known = sorted({key for row in rows for key in row})
  if rows and field not in known:
    raise ValueError(f'--sort: no rollout has a field {field!r}.{spec.did_you_mean(field, known)}')

  def number(row):
    try:
      return float(row.get(field))
    except (TypeError, ValueError):
      return math.nan

  with_number = [row for row in rows if not math.isnan(number(row))]
  rest = [row for row in rows if math.isnan(number(row))]
  if not with_number:  # A text field.
    key = lambda row: (row.get(field) is None, str(row.get(field)))
    return sorted(rows, key=key, reverse=descending)
  return sorted(with_number, key=number, reverse=descending) + rest


def merge(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
  """One row a step: an evaluation's line joins its step's."""
  merged: dict[int, dict[str, float]] = {}
  for row in rows:
    merged.setdefault(row['step'], {}).update(row)
  return [merged[step] for step in sorted(merged)]


def spread(rows: Sequence[Any], limit: int) -> list[Any]:
  """At most `limit` rows, evenly spaced, always with the last."""
  stride = math.ceil(len(rows) / limit) or 1
  return list(rows[::-1][::stride][::-1])


def _block(row, index, width):
  facts = [f'{key} {_short(value)}' for key, value in row.items()
           if key not in _TEXTS and key not in ('answer', 'gold')]
  lines = [progress.rule(f'rollout {index}', width=width)]
  for name in _TEXTS:
    if name in row:
      lines += [f'[{name}]', progress.wrap(str(row[name]), width=width)]
  for name in ('answer', 'gold'):
    if name in row:
      text = progress.printable(str(row[name])) if row[name] else '(none found)'
      lines.append(f'[{name}] {text}')
  return '\n'.join([*lines, progress.wrap('  '.join(facts), width=width)])


def _short(value):
  return f'{value:.4g}' if isinstance(value, float) else str(value)


def main(argv: Sequence[str]) -> None:
  """Prints; a mistake is one sentence on standard error and exit code 2."""
  if len(argv) != 2:
    raise app.UsageError('Name one run folder.')
  if sum([_BEST.value, _WORST.value, _SORT.value is not None]) > 1:
    raise app.UsageError('Give one of --best, --worst and --sort.')
  # A terminal that cannot show a character gets its escape, not an exception.
  sys.stdout.reconfigure(errors='backslashreplace')
  width = min(shutil.get_terminal_size().columns, 100)
  ordered = _BEST.value or _WORST.value
  step = -1 if ordered and _STEP.value is None else _STEP.value
  try:
    if step is None and _SORT.value is None:
      text = summary(argv[1], limit=_LIMIT.value or 20, width=width)
    else:
      text = rollouts(argv[1], -1 if step is None else step,
                      sort='reward' if ordered else _SORT.value, descending=_BEST.value,
                      limit=_LIMIT.value or 5, width=width)
  except (ValueError, OSError) as error:
    print(error, file=sys.stderr)
    sys.exit(2)
  try:
    print(text, flush=True)
  except BrokenPipeError:  # The reader (head, less) has seen enough.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == '__main__':
  app.run(main)
