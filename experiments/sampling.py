"""The sampler of a run: the config's numbers bound, once a device."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import ml_collections

from rlvr import types
from rlvr.policy import heads
from rlvr.samplers import decode
from rlvr.samplers import draws
from rlvr.train import parallel
from rlvr.train import prepare


class Sampler:
  """(params, prompts, key, version, greedy, counts) -> (Rollout, Stats), once a device.

  counts: i32[P], responses of each prompt, at most rollout.responses; None is as
  many for all. A prompt's rows stand together whatever the counts.
  """

  def __init__(self, c: ml_collections.ConfigDict, policy: types.Policy, stop_ids, counter):
    self._c = c.rollout
    self._num_devices = len(jax.devices())
    sample = counter.wrap(lambda params, rollout, key, version: decode.sample(
        params, rollout, key, {}, policy=policy, slots=c.rollout.slots, stop_ids=stop_ids,
        version=version, slots_per_prompt=c.rollout.slots_per_prompt, truncation=truncation(c)))
    self._one = jax.jit(sample)
    self._each = parallel.on_devices(sample)

  def __call__(self, params, prompts, key, version, greedy, counts=None):
    num_prompts, num_responses = prompts.id.shape[0], self._c.responses
    rollout, _ = decode.grow(decode.begin(
        prompts, num_prompts * num_responses, self._c.max_tokens,
        temperature=self._c.temperature, num_draws=self._c.num_draws),
        jnp.full(num_prompts, num_responses))
    place = jnp.arange(rollout.where.shape[0]) % num_responses  # within the prompt
    if counts is not None:
      rollout = rollout.replace(where=place < jnp.asarray(counts)[rollout.prompt])
    if greedy:  # the first response of each prompt
      rollout = rollout.replace(temperature=jnp.where(place == 0, 0.0, rollout.temperature))
    return self.resume(params, rollout, key, version)

  def resume(self, params, rollout, key, version):
    """(Rollout, Stats): every RUNNING row continued; the same key goes on with its draws."""
    if self._num_devices == 1:
      return self._one(params, rollout, key, version)
    split = parallel.split_rows(rollout, self._num_devices)
    keys = parallel.device_keys(key, self._num_devices)
    rollout, stats = self._each(params, split, keys, version)
    return parallel.join_rows(rollout), stats


def allocator(part, memories):
  """(state, rollout, left) -> i32[P]: the part on a graded rollout with what memories read."""
  def allocate(state, rollout, left):
    rollout = prepare.with_step(rollout, state.step)
    for memory in memories:
      rollout = memory.read(rollout, state)
    return part(rollout, left)
  return jax.jit(allocate)


def most_rows(c: ml_collections.ConfigDict) -> int:
  """B, the rows of a batch: all responses, and what an allocator may buy beside them."""
  return c.rollout.prompts * c.rollout.responses + c.rollout.extra_rows


def abstract_rollout(
    c: ml_collections.ConfigDict, width: int, columns: Sequence[str] = (),
    offsets: Sequence[str] = (),
) -> types.Rollout:
  """The shapes of a graded rollout whose prompts have `width` positions.

  columns, offsets: what the verifier names (rollouts.column_names, offset_names).
  """
  num_prompts, num_rows = c.rollout.prompts, most_rows(c)
  row = lambda dtype, *shape: jax.ShapeDtypeStruct((num_rows, *shape), dtype)
  tokens, turns = c.rollout.max_tokens, c.rollout.max_turns
  steps = {'state_id': (), 'action_id': (), 'action_uses': (4,)} if turns > 1 else {}
  prompts = types.Prompts(
      tokens=jax.ShapeDtypeStruct((num_prompts, width), jnp.int32),
      length=jax.ShapeDtypeStruct((num_prompts,), jnp.int32),
      id=jax.ShapeDtypeStruct((num_prompts,), jnp.int32))
  return types.Rollout(
      prompts=prompts, prompt=row(jnp.int32), group=row(jnp.int32), where=row(bool),
      tokens=row(jnp.int32, tokens), valid=row(bool, tokens), mask=row(jnp.float32, tokens),
      rollout_logp=row(jnp.float32, tokens), version=row(jnp.int32, tokens),
      source=row(jnp.int32), stop=row(jnp.int32), temperature=row(jnp.float32),
      columns=row(jnp.float32, 1 + len(columns)), column_where=row(bool, 1 + len(columns)),
      turn=row(jnp.int32, tokens) if turns > 1 else None,
      graded=row(bool), extras=jax.eval_shape(lambda: draws.empty(
          num_rows, tokens, c.rollout.num_draws)) | {name: row(jnp.int32) for name in offsets}
      | {name: row(jnp.int32, turns, *each) for name, each in steps.items()})


def truncation(c: ml_collections.ConfigDict) -> heads.Truncation:
  """The support rule that sampler and scorer share."""
  return heads.Truncation(c.rollout.top_k, c.rollout.top_p, c.rollout.min_p)
