"""Places in a text as places in the response that it was decoded from.

A verifier sees text and names a place by the characters before it; a loss sees
tokens. Tokens hold several characters, and characters take several tokens, so
the place is found by decoding prefixes of the ids, never by counting.
"""

import bisect
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlvr.verifiers import verdict as verdict_lib

Array = jax.Array


def token_index(tokenizer: Any, ids: Sequence[int], text: str, offset: int) -> int:
  """The token with which the character `offset` of a text begins.

  It is the first token that brings the decoded prefix beyond the characters
  before it, with those characters as they stay: half a character decodes to a
  replacement that later tokens take back. Found by bisection, about
  log2(len(ids)) decodings.

  Args:
    tokenizer: its `decode` made the text.
    ids: the whole response.
    text: tokenizer.decode(ids); tokens that it leaves out hold no character.
    offset: characters before the place; negative for nowhere.

  Returns:
    An index into `ids`, or -1 where the text has no such character.
  """
  if not 0 <= offset < len(text):
    return verdict_lib.NOWHERE

  def reaches(index):
    prefix = tokenizer.decode(ids[:index + 1])
    return len(prefix) > offset and prefix[:offset] == text[:offset]

  return bisect.bisect_left(range(len(ids)), True, key=reaches)


def token_places(
    tokenizer: Any, tokens: np.ndarray, valid: np.ndarray, texts: Sequence[str],
    verdicts: Sequence[Any], names: Sequence[str],
) -> Mapping[str, Array]:
  """The offsets of a batch of verdicts, for `rollout.extras`.

  Args:
    tokenizer: decodes.
    tokens: i32[B, T], responses.
    valid: bool[B, T], a prefix of each row.
    texts: the text of each row.
    verdicts: one a row, None for an unused row.
    names: the offsets to keep, fixed for a run (rollouts.offset_names).

  Returns:
    i32[B] by name: the response position, -1 where a verdict names no place,
    is ungraded or is None.
  """
  places = {name: np.full(len(texts), verdict_lib.NOWHERE, np.int32) for name in names}
  for row, verdict in enumerate(verdicts):
    if verdict is None or not verdict.graded:
      continue
    ids = [int(i) for i in tokens[row][valid[row]]]
    for name, place in places.items():
      offset = verdict.offsets.get(name, verdict_lib.NOWHERE)
      place[row] = token_index(tokenizer, ids, texts[row], offset)
  return {name: jnp.asarray(place) for name, place in places.items()}
