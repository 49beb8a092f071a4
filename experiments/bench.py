"""Speed and memory of the main job, measured; ratios within one run.

    python -m experiments.bench matmul            the rates that bound the rest
    python -m experiments.bench sample            tokens/s of 64 responses x 32 tokens
    python -m experiments.bench step              seconds of a GRPO step, 8 x 8 x up to 32
    python -m experiments.bench shared_prompt     update with a shared prompt against replicated
    python -m experiments.bench memory            temporaries of the update against [n, T, V]

A peer is any command that prints its own number ("tokens/s 180.2", "'step_time': 47.1"
or "between rewards [46.8, 47.0]"); it runs in turn with ours, A B A B:

    python -m experiments.bench sample --peer="python hf_generate.py FOLDER"

Model: SmolLM2-135M-Instruct, f32 unless --dtype says otherwise.
"""

import functools
import re
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from absl import app
from absl import flags

from experiments import build
from experiments.configs import quickstart
from rlvr import aggregate
from rlvr import losses
from rlvr import masks
from rlvr import types
from rlvr.host import data
from rlvr.host import loop
from rlvr.host import rollouts
from rlvr.host import verify_pool
from rlvr.samplers import decode
from rlvr.train import cells
from rlvr.train import prepare
from rlvr.train import update

_PEER = flags.DEFINE_multi_string('peer', [], 'A command to run in turn with ours.')
_ROUNDS = flags.DEFINE_integer('rounds', 2, 'Rounds of A B.', 1)
_DTYPE = flags.DEFINE_enum('dtype', 'float32', ['float32', 'bfloat16'], 'Compute dtype.')
_PEER_NUMBERS = (r"tokens/s ([\d.]+)", r"'step_time': ([\d.]+)", r'between rewards \[(.*)\]')


def matmul_rate(m: int = 1024, k: int = 1024, n: int = 1024, dtype='float32') -> float:
  """FLOP/s of x [m, k] @ w [k, n], the best of some tries."""
  x, w = jnp.ones((m, k), dtype), jnp.ones((k, n), dtype)
  product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.float32))
  return 2 * m * k * n / min(seconds(lambda: product(x, w), 20))


def seconds(run: Callable[[], object], num: int) -> list[float]:
  """Wall seconds of `num` calls after one that is not counted."""
  jax.block_until_ready(run())
  times = []
  for _ in range(num):
    began = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - began)
  return times


def bench_config(**changes):
  """The quickstart with the peers' learning rate and response limit."""
  c = quickstart.get_config()
  c.model.compute_dtype = _DTYPE.value
  c.optimizer.learning_rate = 1e-6
  c.rollout.max_tokens = 32
  for name, value in changes.items():
    c.rollout[name] = value
  return c


def matmul() -> None:
  for dtype in ('float32', 'bfloat16'):
    for shape in ((1024, 1024, 1024), (64, 576, 3072), (512, 576, 3072)):
      print(f'matmul {dtype} {shape}: {matmul_rate(*shape, dtype) / 1e9:.0f} GFLOP/s')


def sample() -> None:
  """64 rows x 32 tokens without an early stop, prompts prefilled in the time."""
  c = bench_config()
  run, model = build.build(c, None)
  policy = build.make_policy(c, model)
  tasks = [run.env.train[i] for i in range(c.rollout.prompts)]
  prompts = rollouts.encode_prompts(model.tokenizer, tasks, c.rollout.prompt_buckets)
  rows = c.rollout.prompts * c.rollout.responses
  rollout, _ = decode.grow(decode.begin(prompts, rows, c.rollout.max_tokens),
                           jnp.full(c.rollout.prompts, c.rollout.responses))
  call = jax.jit(functools.partial(
      decode.sample, policy=policy, slots=rows, stop_ids=(-1,),
      slots_per_prompt=c.rollout.responses))
  params = run.init().params
  ours = lambda: rows * c.rollout.max_tokens / statistics.median(seconds(
      lambda: call(params, rollout, jax.random.key(0), {}), 3))
  tokens_per_second = compare('tokens/s', ours, higher_is_better=True)
  flops = tokens_per_second * 2 * count_matmul(model.config)
  rate = matmul_rate(rows, 576, 3072, _DTYPE.value)
  print(f'decode matmuls: {flops / 1e9:.0f} GFLOP/s, {flops / rate:.0%} of {rate / 1e9:.0f} '
        f'GFLOP/s measured at [{rows}, 576] x [576, 3072]')


def step() -> None:
  """Whole GRPO steps: sample, verify, prepare, update; the first step compiles."""
  c = bench_config()
  run, _ = build.build(c, None)
  state = run.init()
  stream = data.PromptStream(len(run.env.train), c.rollout.prompts)
  began = time.perf_counter()
  with verify_pool.VerifyPool(run.env.verifier, num_workers=2) as pool:

    def one():
      nonlocal state
      sampled = loop.sample_phase(run, state, pool, stream)
      batches, rollout, _ = run.prepare(sampled.rollout, state)
      for batch in batches:
        state, metrics = run.update(state, batch)
      state = run.finish(state, rollout, metrics)
      return metrics

    jax.block_until_ready(one())
    print(f'first step, compiled and done: {time.perf_counter() - began:.1f} s')
    compare('s a step', lambda: statistics.median(seconds(one, 3)), higher_is_better=False)


def shared_prompt(num: int = 8, width: int = 256, span: int = 64) -> None:
  """One prompt's N responses against the same code with the prompt N times."""
  c = bench_config()
  _, model = build.build(c, None)
  policy = build.make_policy(c, model)
  optimizer = build.resolve_optimizer(c)
  params = model.params(jax.random.key(0))
  state = types.TrainState(
      step=jnp.zeros((), jnp.int32), params=params, opt_state=optimizer.init(params), anchors={},
      method={}, knobs={'coef_pg': jnp.float32(1.0)}, key=jax.random.key(0))
  terms = {'pg': prepare.Term(losses.surrogate, masks.policy_tokens, aggregate.token_mean)}
  times = {}
  for name, copies in (('shared', 1), ('replicated', num)):
    layout = cells.Layout(1, 1, num, copies, (span,))
    batch = made_batch(terms, layout, model.config.vocab_size, num, width, span, copies)
    call = jax.jit(update.make_update(policy, terms, optimizer, layout), donate_argnums=0)
    state, _ = jax.block_until_ready(call(state, batch))
    times[name] = []
    for _ in range(3):
      began = time.perf_counter()
      state, _ = jax.block_until_ready(call(state, batch))
      times[name].append(time.perf_counter() - began)
  shared, replicated = (statistics.median(times[k]) for k in ('shared', 'replicated'))
  rho = num * (width + span) / (width + num * span)
  flops = model_flops(model.config, width + num * span, num * span)
  rate = matmul_rate(dtype=_DTYPE.value)
  print(f'update, N={num} P={width} R={span}: shared {shared:.2f} s, replicated '
        f'{replicated:.2f} s, {replicated / shared:.2f}x = {replicated / shared / rho:.2f} rho '
        f'(rho {rho:.2f})')
  print(f'model FLOP/s {flops / shared / 1e9:.0f} G, {flops / shared / rate:.0%} of the matmul '
        f'rate {rate / 1e9:.0f} G')


def made_batch(terms, layout, vocab, num, width, span, copies):
  """A full batch of one group whose prompt stands `copies` times."""
  key = jax.random.key(1)
  prompts = types.Prompts(
      tokens=jnp.tile(jax.random.randint(key, (1, width), 0, vocab), (copies, 1)),
      length=jnp.full(copies, width), id=jnp.arange(copies))
  rollout, _ = decode.grow(decode.begin(prompts, num, span), jnp.full(copies, num // copies))
  ones = jnp.ones((num, span))
  rollout = rollout.replace(
      tokens=jax.random.randint(key, (num, span), 0, vocab), valid=ones > 0, mask=ones,
      group=jnp.zeros(num, jnp.int32), reward=ones[:, 0],
      advantages=jnp.where(jnp.arange(num)[:, None] % 2 == 0, ones, -ones))
  return jax.jit(lambda r: prepare.pack(r, ones[:, 0], terms, True, layout)[0])(rollout)


def memory() -> None:
  """Temporaries of the compiled update, one group a cell, at short and at long rows."""
  c = bench_config()
  c.model.remat, c.batch.cell_rows = 'full', c.rollout.responses
  for rows, tokens in ((64, 32), (64, 512), (64, 1024)):
    c.rollout.max_tokens = tokens
    run, model = build.build(c, None)
    temp = build.update_memory(run, c, c.rollout.prompt_buckets[0])
    grads = 4 * sum(x.size for x in jax.tree.leaves(run.abstract.params))
    full = 4 * rows * tokens * model.config.vocab_size
    print(f'update of {rows} x {tokens}: {temp / 1e6:.0f} MB of temporaries, {grads / 1e6:.0f} '
          f'MB of them the summed gradient; [n, T, V] in f32 would be {full / 1e6:.0f} MB, '
          f'ratio {temp / full:.2f}')


def count_matmul(config) -> int:
  """Weights that a generated token is multiplied with."""
  qkv = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
  layer = config.d_model * (qkv + config.num_heads * config.head_dim + 3 * config.d_ff)
  return config.num_layers * layer + config.d_model * config.vocab_size


def model_flops(config, num_tokens: int, num_predicted: int) -> float:
  """6 FLOPs a weight and token, forward and backward; the head only where it predicts."""
  head = config.d_model * config.vocab_size
  return 6.0 * ((count_matmul(config) - head) * num_tokens + head * num_predicted)


def compare(unit: str, ours: Callable[[], float], *, higher_is_better: bool) -> float:
  """Ours and the peers in turn; prints medians and ratios, returns our median."""
  numbers: dict[str, list[float]] = {'ours': []}
  for _ in range(_ROUNDS.value):
    numbers['ours'].append(ours())
    for command in _PEER.value:
      numbers.setdefault(command, []).append(peer_number(command))
  mine = statistics.median(numbers['ours'])
  for name, values in numbers.items():
    median = statistics.median(values)
    ratio = mine / median if higher_is_better else median / mine
    print(f'{name}: {median:.2f} {unit} (of {", ".join(f"{v:.2f}" for v in values)})'
          + ('' if name == 'ours' else f'; ours is {ratio:.2f}x faster'))
  return mine


def peer_number(command: str) -> float:
  """The median of the numbers a peer prints, without its first (it warms up)."""
  text = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
  for pattern in _PEER_NUMBERS:
    found = [float(x) for match in re.findall(pattern, text) for x in match.split(',')]
    if found:
      return statistics.median(found[1:] or found)
  raise ValueError(f'{command!r} printed no number that is known; it printed {text[-300:]!r}.')


def main(argv):
  known = {f.__name__: f for f in (matmul, sample, step, shared_prompt, memory)}
  names = argv[1:] or list(known)
  for name in names:
    if name not in known:
      raise app.UsageError(f'Unknown benchmark {name!r}; known: {", ".join(known)}.')
  for name in names:
    known[name]()


if __name__ == '__main__':
  app.run(main)
