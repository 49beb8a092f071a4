r"""Mathematical answers, compared as expressions by the `math_verify` library.

The library's own time-outs use SIGALRM, which works on the main thread only and
cannot interrupt a power inside C code; they are off, and the pool's deadline,
which kills the process, is the only one.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

from rlvr.verifiers import extract
from rlvr.verifiers import verdict

MAX_CHARACTERS = 2000  # of an expression
MAX_TOWER = 3  # exponents inside exponents: e^{x^{2}} has 2
MAX_NESTING = 100  # brackets inside brackets; the parser recurses
_STEP = re.compile(r'\*\*|\\[a-zA-Z]+|[0-9]+|\S')
_HUGE_POWER = re.compile(r'(?:\^|\*\*) ?[{(]? ?[-+]? ?[0-9]{6,}')
_HUGE_COUNT = re.compile(r'[0-9]{5,} ?!|! ?!|binom ?\{? ?[0-9]{6,}')
_NUMBER_TOWER = re.compile(r'(?:\^|\*\*) ?[{(]* ?([0-9]+) ?(?:\^|\*\*) ?[{(]* ?([0-9]+)')
_MAX_EXPONENT_BITS = 20  # of b^c in a^b^c


def math(task: Mapping[str, Any], text: str, *, require_mark: bool = True) -> verdict.Verdict:
  r"""1 where the answer equals the reference as mathematics, else 0.

  The answer is the last balanced \boxed{...}, else the last '####' line, and
  the reference is read the same way (or is taken whole where it has no mark).
  Equal strings are right, two plain numbers are compared as exact values, and
  only then is the expression parsed.

  Args:
    task: 'answer' is an expression, or a solution that marks one.
    text: what the policy wrote.
    require_mark: where the text marks no answer, True gives 0 ('no_answer')
      and False grades the last non-blank line.

  Returns:
    Status 'ok', 'no_answer', 'bad_text' (too long, too deep, or a power tower
    that no answer needs) or 'bad_gold'.

  Source: Hugging Face Math-Verify, https://github.com/huggingface/Math-Verify.
  """
  gold = extract.gold_text(task)
  if gold is None:
    return verdict.failed(verdict.BAD_GOLD)
  gold = extract.normalised(extract.marked(gold) or gold)
  answer = extract.marked(text)
  if answer is None and not require_mark:
    answer = text.strip().rsplit('\n', 1)[-1]
  answer = extract.normalised(answer or '')
  if not answer:
    return verdict.failed(verdict.NO_ANSWER)
  if answer == gold:
    return verdict.graded_as(True, answer)
  gold_value, value = extract.number(gold), extract.number(answer)
  if gold_value is not None and value is not None:
    return verdict.graded_as(gold_value == value, answer)
  if pathological(answer):
    return verdict.failed(verdict.BAD_TEXT, answer)
  try:
    return verdict.graded_as(_same(gold, answer), answer)
  except RecursionError:
    return verdict.failed(verdict.BAD_TEXT, answer)


def pathological(expression: str) -> bool:
  """Whether an expression is longer, deeper or taller than an answer can need.

  One linear pass. A guard against the known cases, so that a direct call does
  not hang; the pool's deadline is what covers the rest.
  """
  if len(expression) > MAX_CHARACTERS:
    return True
  if _HUGE_POWER.search(expression) or _HUGE_COUNT.search(expression):
    return True
  for base, exponent in _NUMBER_TOWER.findall(expression):
    if int(base[:9]).bit_length() * int(exponent[:9]) > _MAX_EXPONENT_BITS:
      return True
  return _too_deep(expression)


def _too_deep(expression):
  # level: exponents that the open brackets stand in; chain: carets since the last base.
  level, chain, previous, brackets = 0, 0, '', []
  for token in _STEP.findall(expression):
    if token in ('^', '**'):
      chain, previous = chain + 1, '^'
      if level + chain >= MAX_TOWER:
        return True
    elif token in '{([':
      if previous != '^':
        chain = 0
      brackets.append((level, chain))
      if len(brackets) > MAX_NESTING:
        return True
      level, chain, previous = level + chain, 0, ''
    elif token in '})]':
      if brackets:
        level, chain = brackets.pop()
      previous = 'unit'
    elif token in '+-' and previous == '^':
      continue
    elif previous != '^' or token in '*/=,':
      chain, previous = 0, 'unit'
    else:
      previous = 'unit'
  return False


def _same(gold, answer):
  import math_verify  # half a second, so only where it is needed

  logging.getLogger('math_verify').setLevel(logging.ERROR)  # it warns that time-outs are off
  targets = (
      math_verify.LatexExtractionConfig(boxed_match_priority=0),
      math_verify.ExprExtractionConfig(),
  )
  parsed = [
      math_verify.parse('\\boxed{' + expression + '}', targets, parsing_timeout=None)
      for expression in (gold, answer)
  ]
  return bool(math_verify.verify(*parsed, timeout_seconds=None))
