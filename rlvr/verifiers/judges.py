r"""Judges of reasoning: where a solution goes wrong first, and how a judge is paid.

A judge is (problem str, reference str, steps) -> step index | -1: the first step
that is wrong, -1 where none is or where it cannot tell. It is deterministic and
never raises; a text that it cannot read gives -1. Methods that pay or blame by
steps share it, so that a rule, as here, and a model are interchangeable.
"""

import ast
import fractions
import re
from collections.abc import Sequence

from rlvr import spec

NONE = -1  # no step is wrong

# A step ends after an equals sign, a line, a semicolon or a sentence.
BOUNDARY = r'=|[\n;]|[.!?](?=\s)'

_MAX_CHARACTERS = 200  # of one expression; bounds its digits and its depth
_SIGNS = str.maketrans({'×': '*', '÷': '/', '−': '-'})
_LEADING = re.compile(r'[0-9.+\-*/() ]*')
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def split_steps(text: str, *, boundary: str = BOUNDARY) -> list[tuple[int, str]]:
  """The steps of a text with the characters before each; blank steps are left out.

  Args:
    text: what the policy wrote.
    boundary: a regular expression of what ends a step, and belongs to it.

  Returns:
    (offset, step) in order; a step starts at a character that is not a space.
  """
  ends = [match.end() for match in re.finditer(boundary, text) if match.end() > match.start()]
  steps, start = [], 0
  for end in (*ends, len(text)):
    step = text[start:end].lstrip()
    if step:
      steps.append((end - len(step), step))
    start = end
  return steps


def arithmetic(problem: str, reference: str, steps: Sequence[str]) -> int:
  """A rule: the first step that follows an equals sign and differs from what is before it.

  Values are exact fractions of numbers, + - * / and brackets; 1/3 = 0.33 is
  wrong. A step is compared by the expression that it starts with, what stands
  before the sign by the expression that it ends with, which must be all of it or
  hold an operator ('the sum of 3 and 4 = 7' is not read). A problem that ends in
  an equals sign is what the first step is compared with. Steps must be cut after
  equals signs (`BOUNDARY`).

  Args:
    problem: the question.
    reference: not read; the rule needs no solution.
    steps: the response in steps.

  Returns:
    A step index, or -1: nothing is wrong, or nothing can be read.
  """
  del reference
  before = problem.rstrip()
  for index, step in enumerate(steps):
    if before.endswith('='):
      left, right = _closing_value(before[:-1]), _opening_value(step)
      if left is not None and right is not None and left != right:
        return index
    before = step.rstrip()
  return NONE


def judge_reward(predicted: int | None, truth: int, num_steps: int) -> float:
  """What a judge earns on a solution whose first wrong step is known.

  Unreadable or outside {-1, 0 ... n - 1}: -1. A sound solution (truth -1): 1 if
  the judge says so, else -1. A flawed one: -1 if it is called sound, else
  1 - |predicted - truth| / n.

  Args:
    predicted: the judge's step index, -1 for none, None for an unreadable reply.
    truth: the step index, -1 for none.
    num_steps: n.

  Returns:
    A number in [-1, 1].

  Raises:
    ValueError: a truth that is no step.

  Source: FAPO (arXiv 2510.22543). Provenance: official code read
  (verl-project/verl-recipe:fapo/reward_fn_genrm.py).
  """
  if not NONE <= truth < num_steps:
    raise ValueError(f'truth is {truth}; it must be -1 or one of the {num_steps} steps.')
  if predicted is None or not NONE <= predicted < num_steps:
    return -1.0
  if truth == NONE or predicted == NONE:
    return 1.0 if predicted == truth else -1.0
  return 1.0 - abs(predicted - truth) / num_steps


def _opening_value(text):
  """The value of the expression that a text starts with, or None."""
  text = text.translate(_SIGNS).strip().removesuffix('=')
  run = _LEADING.match(text).group()
  follows = text[len(run):len(run) + 1]
  # '5x' is no 5; '5 apples' is.
  if follows and not run.endswith((' ', '.')) and follows not in ',;:!?':
    return None
  return _value(run)


def _closing_value(text):
  """The value of the expression that a text ends with, or None."""
  text = text.translate(_SIGNS).strip()
  run = _LEADING.match(text[::-1]).group()[::-1]
  if len(run) == len(text):
    return _value(run)
  first = run.lstrip()[:1]
  apart = run[:1] == ' ' or text[-len(run) - 1] in ':,;('
  # 'x - 3 + 4' ends in '- 3 + 4', which is not its value.
  if not apart or not (first.isdigit() or first == '(') or not re.search(r'[+\-*/]', run):
    return None
  return _value(run)


def _value(expression):
  """The exact value of an arithmetic expression, or None."""
  expression = expression.strip()
  if not expression or len(expression) > _MAX_CHARACTERS:
    return None
  try:
    return _evaluate(ast.parse(expression, mode='eval').body)
  except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
    return None


def _evaluate(node):
  match node:
    case ast.Constant(value=int() | float()):
      return fractions.Fraction(str(node.value))
    case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
      return _OPERATORS[type(operator)](_evaluate(node.left), _evaluate(node.right))
    case ast.UnaryOp(op=ast.USub()):
      return -_evaluate(node.operand)
  raise ValueError(f'{node!r} is no arithmetic.')


JUDGES = spec.make_table(arithmetic)
