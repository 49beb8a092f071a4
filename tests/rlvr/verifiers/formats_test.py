"""Tests of rlvr.verifiers.formats."""

import functools
import time

import pytest

from rlvr.verifiers import formats
from rlvr.verifiers import number_answers

_PAIR = '<think>so</think><answer>72</answer>'


class TestFormatTags:

  @pytest.mark.parametrize('text, reward', [
      (_PAIR, 1),
      (f'\n{_PAIR}\n ', 1),
      ('<think>a\nb</think>\n<answer></answer>', 1),
      (_PAIR * 10, 0),  # fault 42: ten repeated tag pairs
      (f'{_PAIR} and', 0),
      (f'well {_PAIR}', 0),
      ('<think>so</think> well <answer>72</answer>', 0),
      ('<think><think>so</think><answer>72</answer>', 0),
      ('<think>so <answer>71</answer></think><answer>72</answer>', 0),
      ('<answer>72</answer><think>so</think>', 0),
      ('<think>so</think>', 0),
      ('</think>so<think><answer>72</answer>', 0),
      ('', 0),
  ])
  def test_examples(self, text, reward):
    result = formats.format_tags({'answer': '72'}, text)
    assert result.reward == result.columns['format'] == reward

  def test_a_tag_is_not_a_pattern(self):
    assert formats.format_tags({}, '<a.c>x</a.c>', tags=('a.c',)).reward == 1
    assert formats.format_tags({}, '<abc>x</abc>', tags=('a.c',)).reward == 0

  def test_is_linear(self):
    start = time.monotonic()
    formats.format_tags({}, '<think>' * 100_000)
    assert time.monotonic() - start < 2


class TestTaggedAnswer:

  @pytest.mark.parametrize('text, reward, form, correct', [
      (_PAIR, 1.0, 1, 1),
      (_PAIR.replace('72', '71'), .25, 1, 0),
      (_PAIR * 10, 0.0, 0, 0),
      ('72', 0.0, 0, 0),
      ('<think>72</think><answer> </answer>', .25, 1, 0),
  ])
  def test_weighs_form_and_answer(self, text, reward, form, correct):
    result = formats.tagged_answer({'answer': '72'}, text, format_weight=.25)
    assert result.reward == reward
    assert result.columns == {'format': form, 'correct': correct}

  def test_the_answer_is_graded_by_the_named_verifier(self):
    text = '<think>so</think><answer>it is 72</answer>'
    by_number = functools.partial(
        formats.tagged_answer, verifier=number_answers.last_number)
    assert formats.tagged_answer({'answer': '72'}, text).reward == 0
    assert by_number({'answer': '72'}, text).reward == 1

  def test_a_bad_reference_is_ungraded_even_where_the_form_is_right(self):
    assert formats.tagged_answer({'answer': ''}, _PAIR, format_weight=1.0).status == 'bad_gold'

  def test_refuses_a_weight_outside_its_range(self):
    with pytest.raises(ValueError, match='format_weight is 1.5'):
      formats.tagged_answer({'answer': '72'}, _PAIR, format_weight=1.5)
