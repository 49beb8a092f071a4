"""A supervised start for the toy: without it no random byte string is ever right.

Cross-entropy on the reference solutions is the policy-gradient loss with advantage 1
on rows that hold them, so the step is the library's own.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import optimizer
from rlvr import types
from rlvr.envs import env as env_lib
from rlvr.host import rollouts
from rlvr.samplers import decode
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import update

_ROWS = 32


def warm_start(
    c: ml_collections.ConfigDict, params: Any, policy: types.Policy, tokenizer: Any,
    env: env_lib.Env,
) -> Any:
  """Params after c.model.warm_start_steps steps on the training tasks' solutions, in order."""
  terms = {'pg': prepare.Term(losses.policy_gradient, masks.policy_tokens, aggregate.token_mean)}
  num_rows = min(_ROWS, len(env.train))
  layout = cells.Layout(1, 1, num_rows, num_rows, (c.rollout.max_tokens,))
  optim = optimizer.adam(learning_rate=3e-3)
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optim.init(params), anchors={},
      method={}, knobs={'coef_pg': jnp.float32(1.0)}, key=jax.random.key(0))
  pack = jax.jit(lambda r: prepare.pack(r, jnp.ones(num_rows), terms, True, layout)[0])
  step = jax.jit(update.make_update(policy, terms, optim, layout), donate_argnums=0)
  for i in range(c.model.warm_start_steps):
    tasks = [env.train[(i * num_rows + j) % len(env.train)] for j in range(num_rows)]
    state, _ = step(state, pack(_answers(tasks, c, tokenizer)))
  return state.params


def _answers(tasks, c, tokenizer):
  """A rollout of the tasks' 'script', 'solution' or 'answer', each turn with a stop token."""
  prompts = rollouts.encode_prompts(tokenizer, tasks, c.rollout.prompt_buckets[-1:])
  tokens = np.zeros((len(tasks), c.rollout.max_tokens), np.int32)
  valid, mask = np.zeros(tokens.shape, bool), np.zeros(tokens.shape, np.float32)
  for row, task in enumerate(tasks):
    end = 0
    for said, seen in task.get('script', ((task.get('solution', task['answer']), None),)):
      for ids, own in (([*tokenizer.encode(said), tokenizer.stop_ids[0]], 1.0),
                       (tokenizer.encode(seen or ''), 0.0)):
        ids = ids[:c.rollout.max_tokens - end]
        piece = slice(end, end + len(ids))
        tokens[row, piece], valid[row, piece], mask[row, piece] = ids, True, own
        end = piece.stop
  begin = functools.partial(decode.begin, prompts, len(tasks), c.rollout.max_tokens)
  rollout, _ = decode.grow(begin(), jnp.ones(len(tasks), jnp.int32))
  mask = jnp.asarray(mask)
  return rollout.replace(
      tokens=jnp.asarray(tokens), valid=jnp.asarray(valid), mask=mask, advantages=mask,
      reward=mask[:, 0], source=jnp.full(len(tasks), types.EXTERNAL))
