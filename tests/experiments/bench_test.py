"""Tests of experiments.bench: its arithmetic, and how it reads what peers print."""

import shlex
import sys

import jax
import pytest
from absl import flags
from absl.testing import flagsaver

from experiments import bench
from rlvr.policy import tiny
from rlvr.policy import transformer


@pytest.fixture(autouse=True)
def _flags():
  flags.FLAGS.mark_as_parsed()
  with flagsaver.flagsaver(rounds=2, peer=[]):
    yield


def printing(text):
  """A command that prints `text`."""
  return shlex.join([sys.executable, '-c', f'print({text!r})'])


class TestPeerNumber:

  @pytest.mark.parametrize('text, number', [
      ('tokens/s 180.5', 180.5),
      ('tokens/s 1.0\ntokens/s 20.0\ntokens/s 40.0\ntokens/s 30.0', 30.0),  # the first warms up
      ("{'step_time': 47.5, 'x': 1}\n{'step_time': 46.5}", 46.5),
      ('seconds between rewards [99.0, 46.0, 48.0]', 47.0)])
  def test_the_median_without_the_first(self, text, number):
    assert bench.peer_number(printing(text)) == number

  def test_a_peer_that_prints_no_number(self):
    with pytest.raises(ValueError, match='no number that is known; it printed .*hello'):
      bench.peer_number(printing('hello'))


class TestCompare:

  @pytest.mark.parametrize('higher, said', [(True, '4.00x faster'), (False, '0.25x faster')])
  def test_in_turn_with_medians_and_a_ratio(self, capsys, higher, said):
    ours = iter([10.0, 30.0])
    peer = printing('tokens/s 5.0')
    with flagsaver.flagsaver(peer=[peer]):
      assert bench.compare('tokens/s', lambda: next(ours), higher_is_better=higher) == 20.0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'ours: 20.00 tokens/s (of 10.00, 30.00)'
    assert lines[1] == f'{peer}: 5.00 tokens/s (of 5.00, 5.00); ours is {said}'


class TestCounts:

  def test_every_matrix_of_the_policy_is_counted_once(self):
    config = tiny.config(size='nano')
    params = transformer.init(jax.random.key(0), config=config)
    # Norms are vectors; the tied embedding is the head's matrix.
    matrices = params['embed'].size + sum(
        x.size for x in jax.tree.leaves(params['layers']) if x.ndim == 3)
    assert bench.count_matmul(config) == matrices

  def test_the_head_works_only_where_it_predicts(self):
    config = tiny.config(size='nano')
    head = config.d_model * config.vocab_size
    body = bench.count_matmul(config) - head
    assert bench.model_flops(config, 10, 4) == 6 * (10 * body + 4 * head)


class TestMeasuring:

  def test_seconds_leaves_the_first_call_out(self):
    calls = []
    assert len(bench.seconds(lambda: calls.append(0), 3)) == 3 and len(calls) == 4

  def test_the_rate_of_a_small_product(self):
    assert 1e6 < bench.matmul_rate(64, 64, 64) < 1e15

  def test_an_unknown_name_runs_nothing(self, capsys):
    with pytest.raises(bench.app.UsageError, match="'mat'; known: matmul, sample"):
      bench.main(['bench', 'matmul', 'mat'])
    assert capsys.readouterr().out == ''
