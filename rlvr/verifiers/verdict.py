"""What a verifier says about one answer: a reward, and how far it can be trusted.

The line that matters is between what the policy can cause and what it cannot.
An endless loop, a ten-storey power tower or an empty answer is the policy's
doing: reward 0, and trained on, otherwise the policy learns to hang the grader.
A dead sandbox or an unreadable reference answer is not: the row is left out of
every statistic (`graded` is False).
"""

import collections
import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Mapping

# The policy can cause these; the reward counts.
OK = 'ok'  # an answer was found and compared, rightly or wrongly
NO_ANSWER = 'no_answer'  # the text holds nothing to compare
BAD_TEXT = 'bad_text'  # an answer was found and cannot be read or is pathological
TIMEOUT = 'timeout'  # grading this answer, or running it, took too long
CRASHED = 'crashed'  # the answer ends the process that runs it or reads it
MEMORY = 'memory'  # the answer needs more memory than it is given
# The policy cannot cause these; the row is left out.
GRADER_ERROR = 'grader_error'  # the verifier raised, or returned no verdict
OUTAGE = 'outage'  # what the verifier runs on is not there
BAD_GOLD = 'bad_gold'  # the task has no readable reference answer

POLICY_STATUSES = (OK, NO_ANSWER, BAD_TEXT, TIMEOUT, CRASHED, MEMORY)
UNGRADED_STATUSES = (GRADER_ERROR, OUTAGE, BAD_GOLD)
STATUSES = POLICY_STATUSES + UNGRADED_STATUSES

MAX_SHOWN = 2000  # characters of the extracted answer that a verdict keeps
NOWHERE = -1  # an offset into a text that has no such place


@dataclasses.dataclass(frozen=True)
class Verdict:
  """One graded answer.

  Attributes:
    reward: finite; 0.0 unless the status is 'ok'.
    columns: named parts of the reward, each finite ('format', 'passed').
    status: one of `STATUSES`.
    answer: what was taken from the text and compared, for showing; at most
      `MAX_SHOWN` characters.
    offsets: named places in the text, each the number of characters before it
      ('first_error'); -1 says that the text has no such place.
  """

  reward: float
  columns: Mapping[str, float] = dataclasses.field(default_factory=dict)
  status: str = OK
  answer: str = ''
  offsets: Mapping[str, int] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    if self.status not in STATUSES:
      raise ValueError(f'status is {self.status!r}; known: {", ".join(STATUSES)}.')
    for name, value in (('reward', self.reward), *self.columns.items()):
      if not math.isfinite(value):
        raise ValueError(f'{name} is {value!r}; a verdict holds finite numbers only.')
    if self.reward and self.status != OK:
      raise ValueError(f'reward is {self.reward!r} with status {self.status!r}; only ok may pay.')
    for name, offset in self.offsets.items():
      if not isinstance(offset, int) or offset < NOWHERE:
        raise ValueError(
            f'offset {name} is {offset!r}; it must be a number of characters, or {NOWHERE} for '
            'nowhere.')
    object.__setattr__(self, 'reward', float(self.reward))
    object.__setattr__(self, 'answer', self.answer[:MAX_SHOWN])

  @property
  def graded(self) -> bool:
    """False where the policy cannot have caused the outcome."""
    return self.status not in UNGRADED_STATUSES


def graded_as(right: bool, answer: str) -> Verdict:
  """A verdict of reward 1 or 0 on an answer that was found."""
  return Verdict(float(right), {}, OK, answer)


def failed(status: str, answer: str = '', columns: Mapping[str, float] | None = None) -> Verdict:
  """A verdict of reward 0 with a status that says why."""
  return Verdict(0.0, columns or {}, status, answer)


def shares(verdicts: Iterable[Verdict]) -> dict[str, float]:
  """Shares of a batch for the log.

  Args:
    verdicts: a batch; an empty one gives zeros.

  Returns:
    'ungraded' and 'status/<name>' for every known status, each in [0, 1].
  """
  counts = collections.Counter(verdict.status for verdict in verdicts)
  total = max(1, sum(counts.values()))
  result = {f'status/{status}': counts[status] / total for status in STATUSES}
  result['ungraded'] = sum(counts[status] for status in UNGRADED_STATUSES) / total
  return result
