"""The influence graph: what words say, what is refused, and what is counted."""

import numpy as np
import pytest

from rlvr import envs
from rlvr.host import influence_graph

# Three actions: 0 supports 1 and 2, 1 fails and 2 repeats it, 0 reads one user input.
CARD = influence_graph.Annotation([(0, 1), (0, 2)], [(1, 2)], [False, True, False], [1, 0, 0])
COUNTS = [[2, 1, 0, 0], [0, 1, 1, 1], [0, 1, 0, 0]]
TASK = {'messages': [{'role': 'user', 'content': 'Cancel the order of Ann'}]}


def failed(text):
  return text.startswith('error')


class TestCounts:

  def test_worked(self):
    np.testing.assert_array_equal(influence_graph.counts(CARD), COUNTS)

  def test_duplicates_count_once(self):
    twice = CARD._replace(supports=[*CARD.supports] * 2, failures=[*CARD.failures] * 3)
    np.testing.assert_array_equal(influence_graph.counts(twice), COUNTS)

  def test_a_failed_use_implies_an_error(self):
    np.testing.assert_array_equal(influence_graph.counts(CARD._replace(errors=[False] * 3)), COUNTS)

  @pytest.mark.parametrize('edge', [(1, 0), (1, 1), (0, 3), (-1, 2)])
  @pytest.mark.parametrize('kind', ['supports', 'failures'])
  def test_edges_that_are_refused(self, kind, edge):
    with pytest.raises(ValueError, match=rf'edge \({edge[0]}, {edge[1]}\)'):
      influence_graph.counts(CARD._replace(**{kind: [edge]}))

  @pytest.mark.parametrize('inputs', [[1], [1, -1, 0]])
  def test_inputs(self, inputs):
    with pytest.raises(ValueError, match='inputs='):
      influence_graph.counts(CARD._replace(inputs=inputs))

  def test_nothing(self):
    assert influence_graph.counts(influence_graph.Annotation([], [], [], [])).shape == (0, 4)


class TestByRules:

  def test_words_of_the_world_are_supports(self):
    said = ['find(Ann)', 'orders(u7)', 'cancel(W3, u7)']
    found = influence_graph.by_rules(TASK, said, ['id: u7', 'W3 open'], failed)
    assert set(found.supports) == {(0, 1), (0, 2), (1, 2)}
    assert found.failures == [] and list(found.errors) == [False] * 3
    assert found.inputs == [1, 0, 1]  # 'ann', none, 'cancel'

  def test_the_first_source_alone(self):
    found = influence_graph.by_rules(TASK, ['a', 'b', 'c(u7)'], ['u7', 'u7'], failed)
    assert found.supports == [(0, 2)]

  def test_what_the_policy_or_the_user_wrote_first_is_no_support(self):
    found = influence_graph.by_rules(TASK, ['find(u7)', 'get(u7, ann)'], ['u7 ann'], failed)
    assert found.supports == [] and found.inputs == [0, 1]

  def test_failures(self):
    """A failed call again, twice from its first time, and the use of an error's words."""
    said = ['get(1)', 'GET( 1 )', 'get(1)', 'try(x9)']
    found = influence_graph.by_rules(TASK, said, ['error', 'error x9', 'fine'], failed)
    assert list(found.errors) == [True, True, False, False]
    assert set(found.failures) == {(0, 1), (0, 2), (1, 3)} and found.supports == []
    np.testing.assert_array_equal(
        influence_graph.counts(found), [[0, 0, 2, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])

  def test_repeating_what_worked_is_no_failure(self):
    found = influence_graph.by_rules(TASK, ['get(1)', 'get(1)'], ['fine', 'fine'], failed)
    assert found.failures == []
    assert influence_graph.by_rules(TASK, ['get(1)'] * 2, ['error'] * 2).failures == []

  def test_a_look_up(self):
    env = envs.look_up_tiny()
    task = env.train[0]
    (query, seen), (answer, _) = task['script']
    said = ['zz', query, answer]
    found = influence_graph.by_rules(task, said, [env.respond(task, ('zz',)), seen], env.failed)
    np.testing.assert_array_equal(
        influence_graph.counts(found), [[0, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 0]])


class TestBatchCounts:

  def test_rows_and_padding(self):
    nothing = influence_graph.Annotation([], [], [], [])
    annotate = lambda task, said, heard: CARD if said else nothing
    table = influence_graph.batch_counts(
        annotate, [TASK] * 2, [['a', 'b', 'c'], []], [['x'], []], 4)
    np.testing.assert_array_equal(table, [[*COUNTS, [0] * 4], [[0] * 4] * 4])

  def test_a_refused_row_keeps_zeros_and_is_logged(self, caplog):
    def annotate(task, said, heard):
      if said[0] == 'bad':
        raise ValueError('no such graph')
      return CARD._replace(supports=[(2, 1)]) if said[0] == 'back' else CARD

    said = [['bad', 'b', 'c'], ['back', 'b', 'c'], ['a', 'b', 'c']]
    with caplog.at_level('WARNING', 'absl'):
      table = influence_graph.batch_counts(annotate, [TASK] * 3, said, [[]] * 3, 3)
    np.testing.assert_array_equal(table, [np.zeros((3, 4)), np.zeros((3, 4)), COUNTS])
    assert 'no such graph' in caplog.text and 'edge (2, 1)' in caplog.text
