"""Rollouts on an expert's trajectory, as UI-S1 patches them, their rewards and their metric.

At each step the policy sees the expert's observation and its own earlier outputs. Where
it left the expert, the expert's step enters the history in place of its own, so that
the expert's next observation still makes sense; after `max_patch` of these the rollout
ends. Advantages of the rows are `semi_online`'s (rlvr/advantages/step_returns.py).

Source: UI-S1, Semi-online Reinforcement Learning (arXiv 2509.11543). Provenance:
official code read (X-PLUG/MobileAgent: UI-S1/uis1/core_uis1.py,
verl/utils/dataset/universal_multiround.py, verl/utils/reward_score/gui_traj.py);
abstract of the paper. The metric's formula is recalled, not re-read.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

MODEL, EXPERT, STOP = 'model', 'expert', 'stop'  # what a step leaves in the history
EXACT, SAME_TYPE, PARSED, BROKEN = 1.0, 0.5, 0.1, 0.0  # how an action agrees with the expert's

Message = Mapping[str, str]


class ExpertStep(NamedTuple):
  """What the world showed, and what the expert thought and did, as it would be written."""

  observation: str
  text: str


class Judged(NamedTuple):
  """How an output agrees with the expert's action, and whether its form is right."""

  agreement: float
  well_formed: bool


class Row(NamedTuple):
  """One training row: `output` is all that the policy wrote, the rest is its prompt."""

  step_index: int
  messages: tuple[Message, ...]
  output: str
  match: bool
  reward: float
  left: str  # MODEL, EXPERT or STOP


class Performance(NamedTuple):
  """Progress, task success rate, and their mean, the score."""

  progress: float
  success: float
  score: float


def step_reward(agreement: float, well_formed: bool) -> float:
  """0.1 form + 0.9 agreement: 1 exact, 0.5 the right type, 0.1 parsable, 0 not parsable."""
  return 0.1 * well_formed + 0.9 * agreement


def history_tags(matches: Sequence[bool], *, max_patch: int = 2) -> list[str]:
  """What each step taken leaves in the history; as many as steps are taken.

  A match leaves the policy's output, a mismatch the expert's step while fewer than
  `max_patch` were patched (below 0: no limit), and then the rollout stops; that step
  is a training row still. A mismatch at the last step with patches left is patched:
  the rollout is finished.

  Args:
    matches: of all steps of the trajectory; what lies beyond the stop is not read.
    max_patch: patches allowed; 0 ends at the first mismatch, -1 never.

  Raises:
    ValueError: max_patch is below -1.
  """
  if max_patch < -1:
    raise ValueError(f'semi_online: max_patch={max_patch} must be at least -1.')
  tags: list[str] = []
  for match in matches:
    if match:
      tags.append(MODEL)
    elif max_patch == -1 or tags.count(EXPERT) < max_patch:
      tags.append(EXPERT)
    else:
      tags.append(STOP)
      break
  return tags


def follow(
    expert: Sequence[ExpertStep],
    act: Callable[[tuple[Message, ...]], str],
    judge: Callable[[ExpertStep, str], Judged],
    *,
    max_patch: int = 2,
) -> list[Row]:
  """One rollout on an expert's trajectory: a row for each step taken.

  Args:
    expert: its steps.
    act: messages, observations of the user and what was answered, -> the output.
    judge: how an output agrees with the step; EXACT is a match.
    max_patch: as for `history_tags`.

  Returns:
    Rows in time order. The expert's text stands in messages alone, which are prompts,
    so no token of it is trained.
  """
  rows: list[Row] = []
  history: tuple[Message, ...] = ()
  for index, step in enumerate(expert):
    messages = (*history, {'role': 'user', 'content': step.observation})
    output = act(messages)
    judged = judge(step, output)
    matches = [*(row.match for row in rows), judged.agreement == EXACT]
    left = history_tags(matches, max_patch=max_patch)[-1]
    rows.append(Row(index, messages, output, matches[-1], step_reward(*judged), left))
    if left == STOP:
      break
    said = output if left == MODEL else step.text
    history = (*messages, {'role': 'assistant', 'content': said})
  return rows


def semi_online_performance(matched: Sequence[int], lengths: Sequence[int]) -> Performance:
  """How far the policy follows the expert on its own history, without patches.

  progress = mean s_i / T_i, success = mean [s_i = T_i], score = their mean.

  Args:
    matched: s_i, steps before the first mismatch.
    lengths: T_i, steps of the trajectory, at least 1.

  Raises:
    ValueError: no trajectory, unequal counts, or 0 <= s_i <= T_i does not hold.
  """
  pairs = list(zip(matched, lengths, strict=True))
  if not pairs:
    raise ValueError('semi_online_performance needs at least one trajectory.')
  for steps, length in pairs:
    if length < 1 or not 0 <= steps <= length:
      raise ValueError(
          f'semi_online_performance: {steps} matched steps of {length}; at least one step and '
          'no more matched than there are.')
  progress = sum(steps / length for steps, length in pairs) / len(pairs)
  success = sum(steps == length for steps, length in pairs) / len(pairs)
  return Performance(progress, success, (progress + success) / 2)
