"""A run as one picture: reward, evaluation, length, entropy, mismatch, signal."""

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from rlvr.host import metrics as metrics_lib

_BLUE, _ORANGE, _GREEN = '#1f5fa8', '#d9741a', '#2f8f4e'
_PURPLE, _RED, _GREY = '#8c4fa3', '#b5322e', '#8a8a8a'
_EVALUATION_COLOURS = (_ORANGE, _GREEN, _PURPLE, _RED)


def plot(run_dir: str | os.PathLike, *, path: str | os.PathLike | None = None) -> pathlib.Path:
  """Draws a run's metrics.jsonl as six panels.

  Args:
    run_dir: the run folder.
    path: the picture to write; RUN/metrics.png by default.

  Returns:
    The picture's path. A panel whose metrics the run lacks says so.

  Raises:
    ValueError: no metrics.jsonl, or it has no rows yet.
  """
  rows = metrics_lib.read(run_dir)
  if not rows:
    raise ValueError(f'{run_dir} has no metrics yet: its first step has not ended.')
  path = pathlib.Path(run_dir) / 'metrics.png' if path is None else pathlib.Path(path)

  # Not pyplot: it would choose a screen and keep every figure alive.
  from matplotlib import figure
  from matplotlib.backends import backend_agg

  drawing = figure.Figure(figsize=(13, 7.2), layout='constrained')
  backend_agg.FigureCanvasAgg(drawing)
  panels = drawing.subplots(2, 3, sharex=True).flat
  last_step = max(row['step'] for row in rows)
  drawing.suptitle(f'{pathlib.Path(run_dir).absolute().name}, {last_step} steps')

  _panel(panels[0], 'Training reward', 'mean reward', rows, [('reward', '', _BLUE)])
  _evaluation(panels[1], rows)
  _panel(panels[2], 'Response length', 'tokens', rows, [('length', '', _BLUE)])
  _panel(panels[3], 'Policy entropy', 'nats a token', rows, [('entropy', '', _BLUE)])
  _panel(panels[4], 'Sampler mismatch', 'KL(sampler || trainer), nats a token', rows,
         [('mismatch_kl', '', _BLUE)], log=True)
  _panel(panels[5], 'Where the signal goes', 'share', rows, [
      ('clip_share', 'tokens clipped', _BLUE), ('dead_groups', 'groups all equal', _ORANGE),
      ('truncated', 'responses cut', _GREEN), ('ungraded', 'rows ungraded', _GREY)])
  for panel in panels[3:]:
    panel.set_xlabel('step')
  panels[0].set_xlim(left=0, right=max(last_step, 1))

  temporary = path.with_name(f'.{path.name}.tmp')
  drawing.savefig(temporary, format='png', dpi=110)
  os.replace(temporary, path)
  return path


def smoothed(values: Sequence[float], window: int) -> np.ndarray:
  """Centred moving mean; the window shrinks at both ends and skips NaN.

  Args:
    values: f[N].
    window: full width, made odd.

  Returns:
    f64[N]; NaN where a window holds no finite value.
  """
  values = np.asarray(values, np.float64)
  kernel = np.ones(2 * (window // 2) + 1)
  finite = np.isfinite(values)
  count = _convolve(finite.astype(float), kernel)
  total = _convolve(np.where(finite, values, 0.0), kernel)
  return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _convolve(values, kernel):
  full, half = np.convolve(values, kernel), len(kernel) // 2
  return full[half:half + len(values)]


def _series(rows, name):
  points = [(row['step'], row[name]) for row in rows if name in row]
  steps, values = np.array(points, np.float64).reshape(-1, 2).T
  return steps, values


def _panel(panel, title, label, rows, lines, log=False):
  """One panel of per-step lines; says so where there is nothing to draw."""
  _dress(panel, title, label)
  drawn = []
  for name, legend, colour in lines:
    steps, values = _series(rows, name)
    if not values.size:
      continue
    finite = np.isfinite(values)
    if not finite.all():
      _mark_broken(panel, steps[~finite][0])
    values = np.where(finite, values, np.nan)
    if log:
      # A mismatch of exactly 0 is the best case and has no logarithm: drawn at the bottom.
      positive = values[values > 0]
      values = np.where(values <= 0, positive.min() if positive.size else np.nan, values)
    if np.isfinite(values).any():
      _line(panel, steps, values, legend, colour, log)
    drawn.append((legend, np.isfinite(values).any()))
  if not drawn:
    _note(panel, 'not recorded')
  elif not any(visible for _, visible in drawn):
    _note(panel, '0 at every step' if finite.any() else 'never finite')
  elif log:
    # Limits first: left to itself, matplotlib warns where all values are equal.
    panel.set_ylim(np.nanmin(values) / 1.5, np.nanmax(values) * 1.5)
    panel.set_yscale('log')
  if any(legend for legend, visible in drawn if visible):
    panel.legend(frameon=False, fontsize=8)
    panel.set_ylim(-0.02, 1.02)


def _line(panel, steps, values, legend, colour, log):
  """Long runs: raw values faint, moving mean on top. Short ones: as they are."""
  window = len(values) // 20
  if window < 2:
    marker = 'o' if len(values) < 30 else ''
    panel.plot(steps, values, color=colour, linewidth=1.5, marker=marker, markersize=3,
               label=legend)
    return
  mean = np.exp(smoothed(np.log(values), window)) if log else smoothed(values, window)
  panel.plot(steps, values, color=colour, alpha=0.25, linewidth=1)
  panel.plot(steps, mean, color=colour, linewidth=1.8, label=legend)


def _mark_broken(panel, step):
  panel.axvline(step, color=_RED, linestyle=':', linewidth=1)
  panel.annotate(f'not finite at step {step:.0f}', (step, 0.02), fontsize=8, color=_RED,
                 xycoords=('data', 'axes fraction'), rotation=90, ha='right', va='bottom')


def _evaluation(panel, rows):
  """Held-out numbers with their intervals; every 'eval/' metric that has one."""
  _dress(panel, 'Held-out evaluation', 'share correct')
  names = sorted({name for row in rows for name in row
                  if name.startswith('eval/') and f'{name}_low' in row})
  if any('avg@' in name for name in names):
    names = [name for name in names if not name.endswith('pass@1')]  # equal to avg@k: hides it
  for name, colour in zip(names, _EVALUATION_COLOURS, strict=False):
    chosen = [row for row in rows if name in row]
    steps, values = _series(chosen, name)
    low, high = (_series(chosen, f'{name}{end}')[1] for end in ('_low', '_high'))
    if len(steps) == 1:  # A band of one point has no width.
      panel.vlines(steps, low, high, color=colour, alpha=0.4, linewidth=4)
    panel.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.plot(steps, values, color=colour, linewidth=1.5, marker='o', markersize=4,
               label=name.removeprefix('eval/'))
  if names:
    hidden = len(names) - len(_EVALUATION_COLOURS)
    panel.legend(frameon=False, fontsize=8,
                 title=f'and {hidden} more, not drawn' if hidden > 0 else '95 % interval shaded',
                 title_fontsize=8)
    panel.set_ylim(-0.02, 1.02)
  else:
    _note(panel, 'no evaluation yet')


def _dress(panel, title, label):
  panel.set_title(title, fontsize=11)
  panel.set_ylabel(label, fontsize=9)
  panel.grid(alpha=0.25)
  panel.spines[['top', 'right']].set_visible(False)
  panel.tick_params(labelsize=8, labelbottom=True)


def _note(panel, text):
  panel.text(0.5, 0.5, text, transform=panel.transAxes, ha='center', va='center', color=_GREY)
