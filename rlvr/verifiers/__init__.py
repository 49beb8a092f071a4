"""Verifiers: (task, text) -> Verdict, on the host, in pure Python.

A verifier is deterministic, and a bad text gives it a status, never an
exception. It runs inside `rlvr.host.verify_pool`, which owns the deadline.
"""

from rlvr import spec
from rlvr.verifiers.code_tests import python_tests
from rlvr.verifiers.formats import format_tags
from rlvr.verifiers.formats import tagged_answer
from rlvr.verifiers.gym_answers import reasoning_gym_score
from rlvr.verifiers.judges import JUDGES
from rlvr.verifiers.math_answers import math
from rlvr.verifiers.number_answers import last_number
from rlvr.verifiers.number_answers import numeric
from rlvr.verifiers.part_answers import answer_parts
from rlvr.verifiers.steps import arithmetic_rubric
from rlvr.verifiers.steps import judged_steps
from rlvr.verifiers.text_answers import exact
from rlvr.verifiers.verdict import Verdict

VERIFIERS = spec.make_table(
    answer_parts,
    arithmetic_rubric,
    exact,
    format_tags,
    judged_steps,
    last_number,
    math,
    numeric,
    python_tests,
    reasoning_gym_score,
    tagged_answer,
)

__all__ = ['JUDGES', 'VERIFIERS', 'Verdict', *VERIFIERS]
