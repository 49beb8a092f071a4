"""Any causal flax module, tokens i32[B, S] -> logits f32[B, S, V], as a `types.Policy`.

The door for an architecture that is not in `transformer`: nothing is asked of
the module but that a position sees no later one. Prompt and response are put
into one right-padded sequence a row, and there is no key/value cache: the
decode cache holds the tokens themselves and every step runs the module over
the whole sequence. Correct, the same samples and log-probs as any policy, but
a forward pass of S tokens a drawn token: for tests and small models.
"""

from collections.abc import Callable

import flax
import jax
import jax.numpy as jnp
from flax import linen
from flax import nnx

from rlvr import types
from rlvr.policy import heads

Array = jax.Array


@flax.struct.dataclass(kw_only=True)
class Prefix:
  """The prompts: tokens i32[P, L], length i32[P], logits f32[P, V] after the last token."""

  tokens: Array
  length: Array
  logits: Array


def make_policy(
    module: linen.Module | Callable[[nnx.Rngs], nnx.Module],
    *,
    compute_dtype: jnp.dtype = jnp.float32,
    head_chunk: int = 192,
    num_top: int = 0,
    truncation: heads.Truncation = heads.NO_TRUNCATION,
) -> types.Policy:
  """A policy from a module, called with right-padded tokens alone, deterministic.

  Args:
    module: a linen module, whose params are its 'params' collection; or a
      function (rngs) -> nnx module, whose params are its nnx.Param values as a
      plain dict (a function, so that `init` can draw params from a key).
    compute_dtype: of the params when applied.
    head_chunk: tokens whose probabilities exist at once when scoring. The
      module's own logits [B, L + T, V] exist whole: memory is its affair.
    num_top: how many of the most likely tokens `score` returns.
    truncation: the support rule of the sampler that made the rows.

  Raises:
    ValueError: the module has variables that are not params (linen: from init).
  """
  init, apply = _linen(module) if isinstance(module, linen.Module) else _nnx(module)
  cast = lambda params: jax.tree.map(lambda w: w.astype(compute_dtype), params)
  logits_of = lambda params, tokens: apply(cast(params), tokens).astype(jnp.float32)

  def score(params, rows, knobs, *, anchors=None):
    del knobs, anchors
    num_rows, width = rows.tokens.shape
    start = rows.prompts.length[rows.prompt]
    logits = logits_of(params, _join(rows.prompts.tokens[rows.prompt], start, rows.tokens))
    # Token t of a response is predicted at the place before it.
    places = jnp.maximum(start[:, None] - 1 + jnp.arange(width)[None], 0)
    logits = jnp.take_along_axis(logits, places[:, :, None], axis=1)
    query_ids = rows.query_ids if isinstance(rows, types.Batch) else None
    out = heads.chunked_head(
        lambda z: z, logits.reshape(num_rows * width, -1), rows.tokens.reshape(-1),
        jnp.repeat(rows.temperature, width),
        query_ids=None if query_ids is None else query_ids.reshape(num_rows * width, -1),
        num_top=num_top, truncation=truncation, chunk=head_chunk)
    return types.PolicyOutput(
        **{name: x.reshape(num_rows, width, *x.shape[1:]) for name, x in out.items()})

  def prefill(params, prompts):
    last = jnp.maximum(prompts.length - 1, 0)
    logits = logits_of(params, prompts.tokens)[jnp.arange(last.shape[0]), last]
    return Prefix(tokens=prompts.tokens, length=prompts.length, logits=logits)

  def init_cache(prefix, num_slots, max_tokens):
    del prefix
    return jnp.zeros((num_slots, max_tokens), jnp.int32)

  def decode_step(params, prefix, cache, block_prompt, tokens, t):
    slots = jnp.arange(tokens.shape[0])
    cache = cache.at[slots, t].set(tokens)
    prompt = jnp.repeat(block_prompt, tokens.shape[0] // block_prompt.shape[0])
    start = prefix.length[prompt]
    # What an earlier row left beyond t is later in the sequence, so it is not seen.
    logits = logits_of(params, _join(prefix.tokens[prompt], start, cache))
    return logits[slots, start + t], cache

  return types.Policy(init=init, cast=cast, score=score, prefill=prefill, init_cache=init_cache,
                      decode_step=decode_step, take_slots=lambda cache, slots: cache[slots])


def _linen(module):
  """init and apply of a linen module."""
  def init(key):
    variables = module.init(key, jnp.zeros((1, 1), jnp.int32))
    other = sorted(set(variables) - {'params'})
    if other:
      raise ValueError(f'{type(module).__name__} has collections {other}; only params are kept.')
    return variables['params']

  return init, lambda params, tokens: module.apply({'params': params}, tokens)


def _nnx(make_module):
  """init and apply of what (rngs) -> nnx module makes."""
  graph, params_like, other = nnx.split(
      nnx.eval_shape(lambda: make_module(nnx.Rngs(0))), nnx.Param, ...)
  if jax.tree.leaves(other):
    names = sorted('.'.join(map(str, path)) for path, _ in nnx.to_flat_state(other))
    raise ValueError(f'The module has variables {names}; only nnx.Param is kept.')

  def apply(params, tokens):
    state = jax.tree.map(lambda x: x, params_like)  # a copy: it is filled in
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state, other)(tokens)

  init = lambda key: nnx.to_pure_dict(nnx.state(make_module(nnx.Rngs(key)), nnx.Param))
  return init, apply


def _join(prompts, start, responses):
  """i32[B, L + T]: each prompt's first `start` tokens, then its response at once."""
  place = jnp.arange(prompts.shape[1] + responses.shape[1])[None] - start[:, None]
  own = jnp.take_along_axis(
      responses, jnp.clip(place, 0, responses.shape[1] - 1), axis=1)
  return jnp.where(place < 0, jnp.pad(prompts, ((0, 0), (0, responses.shape[1]))), own)
