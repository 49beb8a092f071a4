"""Tests of rlvr.envs.question_files: every fault is one sentence with its place."""

import pyarrow
import pytest
from pyarrow import parquet

from rlvr.envs import question_files

_GOOD = '{"question": "1+1?", "answer": "2"}\n'


def _read(path):
  return question_files.read_rows(str(path), 'question', 'answer')


class TestJsonLines:

  def test_rows_keep_their_fields(self, tmp_path):
    path = tmp_path / 'a.jsonl'
    path.write_text('\ufeff' + _GOOD + '{"question": "q", "answer": 3, "tests": [1]}')
    assert _read(path) == [
        {'question': '1+1?', 'answer': '2'}, {'question': 'q', 'answer': '3', 'tests': [1]}]

  @pytest.mark.parametrize('line, message', [
      ('{"question": "q", ', r"a.jsonl line 2 is not JSON \(.*\); each line must be one object"),
      ('', 'line 2 is blank; delete it'),
      ('  ', 'line 2 is blank; delete it'),
      ('[1]', 'line 2 is a JSON list; each line must be one object'),
      ('[' * 100_000, 'line 2 is not JSON'),
      ('{"problem": "q", "answer": "2"}',
       "line 2 has no field 'question'; it has 'answer', 'problem'"),
      ('{"question": "q"}', "line 2 has no field 'answer'; it has 'question'"),
      ('{}', 'line 2 has no field .*; it has none'),
      ('{"question": " ", "answer": "2"}', "'question' is ' '; write a non-blank string"),
      ('{"question": 3, "answer": "2"}', "'question' is 3; write a non-blank string"),
      ('{"question": "q", "answer": ""}', "'answer' is ''; write a non-blank string or a number"),
      ('{"question": "q", "answer": null}', "'answer' is None"),
      ('{"question": "q", "answer": true}', "'answer' is True"),
      ('{"question": "q", "answer": NaN}', "'answer' is nan"),
      ('{"question": "q", "answer": [2]}', r"'answer' is \[2\]"),
      ('\udcff', 'line 2 is not UTF-8'),
  ])
  def test_a_bad_line(self, tmp_path, line, message):
    path = tmp_path / 'a.jsonl'
    path.write_bytes((_GOOD + line + '\n' + _GOOD).encode('utf-8', 'surrogateescape'))
    with pytest.raises(ValueError, match=message) as error:
      _read(path)
    assert '\n' not in str(error.value)

  def test_files_that_are_not_there_or_empty(self, tmp_path):
    with pytest.raises(ValueError, match='b.jsonl does not exist'):
      _read(tmp_path / 'b.jsonl')
    with pytest.raises(ValueError, match='is a directory'):
      _read(tmp_path)
    (tmp_path / 'c.jsonl').touch()
    with pytest.raises(ValueError, match='c.jsonl holds no rows'):
      _read(tmp_path / 'c.jsonl')


class TestParquet:

  def _write(self, path, **columns):
    parquet.write_table(pyarrow.table(columns), path)
    return path

  def test_rows(self, tmp_path):
    path = self._write(tmp_path / 'a.parquet', question=['q', 'r'], answer=[1, 2], level=['x', 'y'])
    assert _read(path)[1] == {'question': 'r', 'answer': '2', 'level': 'y'}

  def test_faults(self, tmp_path):
    path = self._write(tmp_path / 'a.parquet', question=['q', None], answer=['1', '2'])
    with pytest.raises(ValueError, match="a.parquet row 2: field 'question' is None"):
      _read(path)
    path = self._write(tmp_path / 'b.parquet', problem=['q'], answer=['1'])
    with pytest.raises(ValueError, match="b.parquet has no field 'question'; it has 'answer', "):
      _read(path)
    path = self._write(
        tmp_path / 'c.parquet', question=pyarrow.array([], pyarrow.string()),
        answer=pyarrow.array([], pyarrow.string()))
    with pytest.raises(ValueError, match='holds no rows'):
      _read(path)
    (tmp_path / 'd.parquet').write_text(_GOOD)
    with pytest.raises(ValueError, match='d.parquet is not a Parquet file'):
      _read(tmp_path / 'd.parquet')
