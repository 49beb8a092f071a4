"""Tests of rlvr.host.plot."""

import os
import warnings

import numpy as np
import pytest
from matplotlib import image

from rlvr.host import metrics
from rlvr.host import plot


def write(folder, rows):
  with metrics.Writer(folder, tensorboard=False) as writer:
    for row in rows:
      writer.write(row['step'], {k: v for k, v in row.items() if k != 'step'})


class TestPlot:

  def test_a_run_is_one_picture(self, tmp_path):
    rng = np.random.default_rng(0)
    rows = [{'step': s, 'reward': rng.random(), 'length': 50.0, 'entropy': 1.0,
             'mismatch_kl': 0.0 if s % 7 == 0 else rng.random() * 1e-4, 'clip_share': 0.1,
             'dead_groups': 0.5} for s in range(1, 80)]
    rows += [{'step': s, 'eval/accuracy': 0.5, 'eval/accuracy_low': 0.4,
              'eval/accuracy_high': 0.6} for s in (20, 40, 79)]
    write(tmp_path, rows)
    with warnings.catch_warnings():
      warnings.simplefilter('error')
      path = plot.plot(tmp_path)
    assert path == tmp_path / 'metrics.png'
    assert sorted(os.listdir(tmp_path)) == ['metrics.jsonl', 'metrics.png']
    pixels = image.imread(path)
    assert pixels.shape[1] > 1200
    # Each of the six panels has a coloured line in it.
    high, wide = pixels.shape[0] // 2, pixels.shape[1] // 3
    for row in range(2):
      for column in range(3):
        part = pixels[row * high:(row + 1) * high, column * wide:(column + 1) * wide, :3]
        assert (part.max(-1) - part.min(-1) > 0.3).sum() > 100, (row, column)

  @pytest.mark.parametrize('rows', [
      [{'step': 1}],
      [{'step': 1, 'reward': float('nan'), 'mismatch_kl': float('inf')}],
      [{'step': s, 'reward': float('nan') if s > 50 else 1.0, 'mismatch_kl': 0.0,
        'clip_share': float('nan')} for s in range(100)],
      [{'step': s, 'reward': float('inf') if s % 9 else 1.0,
        'mismatch_kl': float('inf') if s % 9 else 1e-3} for s in range(100)],
      [{'step': 3, 'eval/pass@1': 0.5, 'eval/pass@1_low': 0.5, 'eval/pass@1_high': 0.5}],
  ])
  def test_thin_and_diverged_runs_are_drawn(self, tmp_path, rows):
    write(tmp_path, rows)
    with warnings.catch_warnings():
      warnings.simplefilter('error')
      assert plot.plot(tmp_path, path=tmp_path / 'x.png').stat().st_size > 1000

  def test_a_folder_without_metrics_is_named(self, tmp_path):
    with pytest.raises(ValueError, match='has no metrics.jsonl'):
      plot.plot(tmp_path)
    write(tmp_path, [])
    with pytest.raises(ValueError, match='has no metrics yet'):
      plot.plot(tmp_path)


class TestSmoothed:

  def test_by_hand(self):
    np.testing.assert_allclose(plot.smoothed([0, 3, 6, 3], 3), [1.5, 3, 4, 4.5])
    np.testing.assert_allclose(plot.smoothed([1, 2], 1), [1, 2])

  def test_window_longer_than_the_run_and_nan(self):
    np.testing.assert_allclose(plot.smoothed([1, np.nan, 3], 9), [2, 2, 2])
    assert np.isnan(plot.smoothed([np.nan, np.nan], 3)).all()
