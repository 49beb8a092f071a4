"""The contract of every verifier in the table: total, deterministic, bounded, sendable."""

import math
import pickle
import subprocess
import sys
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from rlvr import spec
from rlvr import verifiers
from rlvr.verifiers import verdict

# One task that every verifier can grade, and a right answer to it for each.
_TASK = {
    'answer': '72', 'tests': ['assert f(1) == 2'], 'dataset': 'chain_sum',
    'entry': {'question': '70 + 2', 'answer': '72', 'metadata': {}}}
_RIGHT = {
    'answer_parts': '72', 'exact': '72', 'last_number': 'so 72', 'numeric': '#### 72',
    'math': r'\boxed{72}',
    'format_tags': '<think>so</think><answer>72</answer>',
    'tagged_answer': '<think>so</think><answer>72</answer>',
    'judged_steps': '70+2=72', 'arithmetic_rubric': '70+2=72',
    'reasoning_gym_score': '<answer>72</answer>', 'python_tests': 'def f(x): return x + 1'}
_LOOKS_AT_NO_ANSWER = {'format_tags'}
_NASTY = (
    '', ' \n\t', '\x00', '\ud800', '\u202e71', '{' * 5000, '\\boxed{' * 2000, '\\boxed{}',
    '#### ', '9' * 5000, '-', '$', '.', ',', '<answer>', '</answer><answer>', '<answer></answer>',
    '\\boxed{\\frac{}{}}', '\\boxed{\\begin{pmatrix}}', '\\boxed{x=y=z=1}', '[' * 3000,
    '\\boxed{' + '(' * 90 + ')' * 90 + '}', '\\boxed{1/0}', '\\boxed{\\sqrt{-1}}',
    '__import__("os")', 'a' * 100_000, 'None', 'nan', 'inf', '1e999')
_PIECES = st.sampled_from((
    '\\boxed{', '\\frac{', '}', '{', '72', '-', '#### ', '$', '^', '(', ')', '<answer>',
    '</answer>', '<think>', '</think>', '\\text{', '\\sqrt{', ',', '.', '=', 'x', ' ', '\n', '%'))
_TEXTS = st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=20).map(''.join))


def _check(result):
  assert isinstance(result, verdict.Verdict)
  assert result.status in verdict.STATUSES
  assert result.graded, 'no text may make a sound task ungraded'
  assert 0.0 <= result.reward <= 1.0
  assert all(math.isfinite(value) for value in result.columns.values())
  assert isinstance(result.answer, str) and len(result.answer) <= verdict.MAX_SHOWN


@pytest.mark.parametrize('name', verifiers.VERIFIERS)
class TestContract:

  def test_a_right_answer_is_paid_and_a_blank_one_is_not(self, name):
    verifier = verifiers.VERIFIERS[name]
    assert verifier(_TASK, _RIGHT[name]).reward == 1
    assert verifier(_TASK, '').reward == 0

  def test_nasty_texts_get_a_graded_status(self, name):
    verifier = verifiers.VERIFIERS[name]
    for text in _NASTY:
      start = time.monotonic()
      result = verifier(_TASK, text)
      assert time.monotonic() - start < 5, f'{text[:20]!r} took too long'
      _check(result)
      assert result.reward == 0, f'{text[:20]!r} was paid'

  def test_is_deterministic_and_never_raises(self, name):
    verifier = verifiers.VERIFIERS[name]
    # Starting a process a text makes one verifier slow, so it is given fewer.
    examples = 8 if name == 'python_tests' else 150

    @hypothesis.settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @hypothesis.given(text=_TEXTS)
    def check(text):
      result = verifier(_TASK, text)
      _check(result)
      assert verifier(_TASK, text) == result

    check()

  def test_goes_through_a_config_and_a_pickle(self, name):
    tables = {'verifier': verifiers.VERIFIERS, 'judge': verifiers.JUDGES}
    part = spec.resolve(
        tables, spec.spec(verifiers.VERIFIERS[name]), 'config.verifier', 'verifier')
    assert pickle.loads(pickle.dumps(part))(_TASK, _RIGHT[name]).reward == 1


@pytest.mark.parametrize('task', [{}, {'answer': ''}, {'answer': None}])
@pytest.mark.parametrize('name', sorted(set(verifiers.VERIFIERS) - _LOOKS_AT_NO_ANSWER))
def test_a_task_without_a_reference_is_ungraded(name, task):
  result = verifiers.VERIFIERS[name](task, _RIGHT[name])
  assert (result.status, result.graded, result.reward) == ('bad_gold', False, 0)


def test_the_table_imports_nothing_heavy():
  # A worker that is killed has to be replaced at once.
  program = (
      'import sys; from rlvr import verifiers, envs; from rlvr.host import verify_pool, data; '
      'print([m for m in ("jax", "sympy", "math_verify", "reasoning_gym", "grain", "pyarrow") '
      'if m in sys.modules])')
  done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
  assert done.stdout.strip() == '[]', done.stderr
