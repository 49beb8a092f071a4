"""Tests of rlvr.verifiers.extract."""

import decimal
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from rlvr.verifiers import extract

_BOMB = 300_000  # characters; quadratic work on it takes minutes, linear a fraction of a second


class TestLastBox:

  @pytest.mark.parametrize('text, box', [
      (r'\boxed{1} … \boxed{\frac{1}{2}}', r'\frac{1}{2}'),  # fault 35
      (r'\boxed{ 7 }', '7'),
      (r'\boxed {7}', '7'),
      (r'\fbox{7}', '7'),
      (r'\boxed{\boxed{7}}', '7'),
      (r'\boxed{1} \boxed{a \boxed{2} b}', '2'),
      (r'\boxed{\{1, 2\}}', r'\{1, 2\}'),
      (r'{ \boxed{5}', '5'),
      (r'} \boxed{5}', '5'),
      (r'\boxed{1} then \boxed{2', '1'),  # the last *balanced* one
      (r'\boxed{{3}', None),
      (r'\boxed{}', ''),
      (r'\\boxed{5}', None),  # a line break and a word
      (r'\boxed 5', None),
      ('{5}', None),
      ('', None),
  ])
  def test_examples(self, text, box):
    assert extract.last_box(text) == box

  @pytest.mark.parametrize('bomb', [
      r'\boxed{' * (_BOMB // 7), '{' * _BOMB, '}' * _BOMB, '\\' * _BOMB,
      r'\boxed' + ' ' * _BOMB, r'\boxed{' + '{}' * (_BOMB // 2)])
  def test_is_linear(self, bomb):
    start = time.monotonic()
    extract.last_box(bomb)
    assert time.monotonic() - start < 2


class TestLastHash:

  @pytest.mark.parametrize('text, answer', [
      ('so\n#### 72', '72'),
      ('#### 1\n#### $2.\nbye', '$2.'),
      ('####72', '72'),
      ('####', None),
      ('#### \n5', None),
      ('### 72', None),
  ])
  def test_examples(self, text, answer):
    assert extract.last_hash(text) == answer


class TestLastTag:

  @pytest.mark.parametrize('text, answer', [
      ('<answer>1</answer> <answer> 2 </answer>', '2'),
      ('<answer>1</answer> <answer>2', '1'),
      ('<answer>a <answer>2</answer>', '2'),
      ('</answer><answer>', None),
      ('', None),
  ])
  def test_examples(self, text, answer):
    assert extract.last_tag(text, 'answer') == answer


class TestLastNumber:

  @pytest.mark.parametrize('text, number', [
      ('72 clips, altogether.', '72'),  # fault 36
      ('-5', '-5'),  # fault 37, and the next three
      ('1,000', '1000'),
      ('x = 3 so 7', '7'),
      ('1,234,567.50', '1234567.5'),
      ('#### 72.', '72'),  # fault 38, and the next
      ('#### $72', '72'),
      (r'\$72', '72'),
      ('-$72', '-72'),
      ('$-72', '-72'),
      ('10-5', '5'),
      ('x=-5', '-5'),
      ('(-5)', '-5'),
      ('5 - 3', '3'),
      ('\u22125', '-5'),
      ('1{,}000', '1000'),
      (r'1\,000', '1000'),
      ('007', '7'),
      ('.5', '0.5'),
      ('0.50', '0.5'),
      ('-0.0', '0'),
      ('1e3', '1000'),
      ('1.5e-3', '0.0015'),
      ('1,2,3', '3'),
      ('1,0000', '0'),  # not a thousands comma, so two numbers
      (', . - $', None),
      ('no', None),
      ('', None),
      ('\u0661', None),  # only the ten digits of ASCII
  ])
  def test_examples(self, text, number):
    assert extract.last_number(text) == number

  @pytest.mark.parametrize('bomb', [
      '9' * _BOMB, '111,' * (_BOMB // 4) + '1111', '-' * _BOMB, '1e' * (_BOMB // 2),
      '1.' * (_BOMB // 2), '$' * _BOMB, '$ ' * (_BOMB // 2), '1e999' * (_BOMB // 5)])
  def test_is_linear(self, bomb):
    start = time.monotonic()
    extract.last_number(bomb)
    assert time.monotonic() - start < 2

  def test_a_number_too_long_to_be_an_answer_is_none(self):
    assert extract.last_number('9' * 5000) is None

  @hypothesis.given(st.decimals(allow_nan=False, allow_infinity=False, places=4,
                                min_value=-10**9, max_value=10**9))
  def test_equal_values_have_one_form(self, value):
    plain, grouped = f'{value:f}', f'{value:,f}'
    found = extract.last_number(f'so {plain}.')
    assert found == extract.last_number(f'= ${grouped}') == extract.number(plain)
    assert decimal.Decimal(found) == value


class TestNumber:

  @pytest.mark.parametrize('text, number', [
      ('72.', '72'), ('$72$', '72'), (r'\(72\)', '72'), (r'\text{72}', '72'), (' 72\n', '72'),
      ('72 clips', None), ('x = 72', None), ('7-2', None), ('1/2', None), ('', None), ('-', None),
  ])
  def test_is_the_whole_text(self, text, number):
    assert extract.number(text) == number


class TestNormalised:

  @pytest.mark.parametrize('text, same', [
      ('  Paris. ', 'Paris'),
      (r'$\text{Paris}$', 'Paris'),
      ('a \n\t b', 'a b'),
      ('a\x00b', 'a b'),
      (r'\left(1, 2\right)', '(1, 2)'),
      ('', ''),
      ('$', '$'),
  ])
  def test_examples(self, text, same):
    assert extract.normalised(text) == same

  def test_case_is_kept_unless_asked(self):
    assert extract.normalised('Paris') == 'Paris'
    assert extract.normalised('Paris', ignore_case=True) == 'paris'


@pytest.mark.parametrize('function', [
    extract.last_box, extract.last_hash, extract.marked, extract.last_number, extract.number,
    extract.normalised])
@hypothesis.given(text=st.one_of(
    st.text(), st.text(alphabet='\\boxed{}#$,.-+eE0123456789 \n<>/answer\u2212')))
def test_no_text_raises(function, text):
  result = function(text)
  assert result is None or isinstance(result, str)
