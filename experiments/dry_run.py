"""What a run would be: shapes, parameters, memory and programs, without running it."""

import jax
import jax.numpy as jnp
import ml_collections

from experiments import build


def report(c: ml_collections.ConfigDict) -> str:
  """Lines of text; compiles the largest update to read its memory off the compiler."""
  run, model = build.build(c, None)
  state = run.abstract
  num_params = sum(x.size for x in jax.tree.leaves(state.params))
  num_bytes = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)
                               if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key))
  layout = build.make_layout(c)
  r = c.rollout
  rows = r.prompts * r.responses
  temporaries = build.update_memory(run, c, r.prompt_buckets[-1])
  prefix = 2 * model.config.num_layers * model.config.num_kv_heads * model.config.head_dim * 4
  lines = [
      f'environment        {run.env.description}',
      f'model              {model.config}',
      f'parameters         {num_params:,} ({_size(num_bytes(state.params))} in f32)',
      f'state              {_size(num_bytes(state))} (params, optimizer, anchors)',
      f'rollout            {r.prompts} prompts x {r.responses} responses = {rows} rows, up to '
      f'{r.prompt_buckets[-1]} + {r.max_tokens} tokens',
      f'sampler            {min(r.slots, rows)} slots; K/V '
      f'{_size(prefix * (min(r.slots, rows) * r.max_tokens + r.prompts * r.prompt_buckets[-1]))}',
      f'cells              {layout.devices} devices x {layout.cells} x {layout.rows} rows, '
      f'{layout.prompts} prompts each; response widths {layout.spans}',
      f'update             {_size(temporaries)} of temporaries at the largest '
      f'prompt bucket; [rows, tokens, vocabulary] in f32 would be '
      f'{_size(rows * r.max_tokens * model.config.vocab_size * 4)}',
      f'to compile         sampler, prepare and update once for each prompt bucket met of '
      f'{tuple(r.prompt_buckets)}',
  ]
  return '\n'.join(lines)


def _size(num_bytes: float) -> str:
  for unit in ('B', 'KiB', 'MiB', 'GiB'):
    if num_bytes < 1024:
      return f'{num_bytes:.1f} {unit}'
    num_bytes /= 1024
  return f'{num_bytes:.1f} TiB'
