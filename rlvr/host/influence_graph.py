"""Which actions of a conversation built on which: the graph that IAPO's credit reads.

An annotator looks at a finished conversation and names edges between its actions;
`counts` checks them and counts. The paper's annotator is a frozen model; `by_rules`
compares words, which is enough for tools that speak in keys and values.
"""

import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from rlvr.envs import env as env_lib

Edge = tuple[int, int]


class Annotation(NamedTuple):
  """What an annotator found among K actions, numbered in time order.

  Attributes:
    supports: (i, j), i < j: j consumes information that i supplied or elicited.
    failures: (i, j), i < j: j repeats the error of i, uses its invalid output, or must
      fall back because of it.
    errors: per action, whether it carries an observable error; a changed goal is none.
    inputs: per action, the direct user inputs that it consumes.
  """

  supports: Sequence[Edge]
  failures: Sequence[Edge]
  errors: Sequence[bool]
  inputs: Sequence[int]


def by_rules(
    task: env_lib.Task, said: Sequence[str], heard: Sequence[str],
    failed: Callable[[str], bool] | None = None,
) -> Annotation:
  """Edges from words that return, errors from what the tool says.

  A word belongs to whoever wrote it first. One of the world's that a later action
  writes is a support of the action that elicited it, or a failed use where that answer
  was an error. Repeating a failed call, case and spaces aside, is a failed use of the
  first such call. The question's words are the user's inputs. Falling back after an
  error by other means is not seen, nor is information that an action makes up itself.

  Args:
    task: its messages are the question.
    said: the action texts.
    heard: the world's answers to them; the last actions may have none.
    failed: whether an answer says that the action failed; None: none does.

  Source: IAPO (arXiv 2608.24588). Provenance: the rules are ours, in place of the
  paper's frozen model.
  """
  asked = _words(' '.join(message['content'] for message in task['messages']))
  errors = [failed is not None and step < len(heard) and failed(heard[step])
            for step in range(len(said))]
  source = dict.fromkeys(asked)  # word -> the action that elicited it, None if nobody's
  calls: dict[str, int] = {}  # a failed call -> the first action that made it
  supports, failures, consumed = [], [], []
  for step, text in enumerate(said):
    words = _words(text)
    consumed.append(len(words & asked))
    for origin in {source[word] for word in words if source.get(word) is not None}:
      (failures if errors[origin] else supports).append((origin, step))
    call = ''.join(text.lower().split())
    if call in calls:
      failures.append((calls[call], step))
    if errors[step]:
      calls.setdefault(call, step)
    for word in words:
      source.setdefault(word, None)
    for word in _words(heard[step]) if step < len(heard) else ():
      source.setdefault(word, step)
  return Annotation(supports, failures, errors, consumed)


def counts(annotation: Annotation) -> np.ndarray:
  """i32[K, 4]: d+, d_in, d-, e of each action, as `advantages.iapo` reads them.

  d+ and d- are edges that leave the action, d_in its inputs and the supports that reach
  it; an edge named twice counts once. A failure that leaves an action makes it an error,
  whatever the annotator said.

  Raises:
    ValueError: an edge that leads back, to itself, or to no action; or inputs and
      errors are not one an action.
  """
  num_actions = len(annotation.errors)
  if len(annotation.inputs) != num_actions or any(n < 0 for n in annotation.inputs):
    raise ValueError(
        f'inputs={annotation.inputs} must be one count for each of {num_actions} actions.')
  table = np.zeros((num_actions, 4), np.int32)
  table[:, 1] = annotation.inputs
  table[:, 3] = [bool(error) for error in annotation.errors]
  for column, edges in ((0, annotation.supports), (2, annotation.failures)):
    for i, j in set(edges):
      if not 0 <= i < j < num_actions:
        raise ValueError(
            f'edge {(i, j)} must lead from an action to a later one of {num_actions}.')
      table[i, column] += 1
      if column == 0:
        table[j, 1] += 1
      else:
        table[i, 3] = 1
  return table


def batch_counts(
    annotate: Callable[..., Annotation], tasks: Sequence[env_lib.Task],
    said: Sequence[Sequence[str]], heard: Sequence[Sequence[str]], max_turns: int,
) -> np.ndarray:
  """i32[B, max_turns, 4]: `counts` of each row, 0 past its last turn.

  A row whose annotation is refused, by the annotator's own ValueError or by that of
  `counts`, is logged and keeps zeros, with which IAPO is its base.
  """
  table = np.zeros((len(said), max_turns, 4), np.int32)
  for row, (task, texts, answers) in enumerate(zip(tasks, said, heard, strict=True)):
    try:
      table[row, :len(texts)] = counts(annotate(task, texts, answers))
    except ValueError as error:
      logging.warning('The influence graph of row %d is left out: %s', row, error)
  return table


def _words(text):
  return set(re.findall(r'\w+', text.lower()))
