"""Thin wrappers that run the same functions on several devices.

`on_pmap` and `on_mesh` are the only two ways in which anything differentiated
is run in parallel: under a bare shard_map with its default replication check
the same update returns gradients that are too large by the number of devices,
which Adam hides. The sampler has no gradient and runs once a device.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec

from rlvr import types

Array = jax.Array

DATA, FSDP = 'data', 'fsdp'


def make_mesh(data: int, fsdp: int = 1) -> jax.sharding.Mesh:
  """A mesh of data x fsdp devices, axis types Auto.

  Raises:
    ValueError: data * fsdp is not the number of devices.
  """
  num_devices = len(jax.devices())
  if data < 1 or fsdp < 1 or data * fsdp != num_devices:
    raise ValueError(
        f'A mesh of data={data} x fsdp={fsdp} needs {data * fsdp} devices; '
        f'{num_devices} are present.')
  auto = (jax.sharding.AxisType.Auto,) * 2
  return jax.make_mesh((data, fsdp), (DATA, FSDP), axis_types=auto)


def on_pmap(update: Callable[..., Any]) -> Callable[..., Any]:
  """update with the state replicated and the batch's D axis over devices.

  Returns:
    (state, batch) -> (state, metrics); `batch` has leaves [D, M, ...] with D the
    number of devices. The state is donated and never stacked.
  """
  def per_device(state, batch):
    # pmap strips the device axis; D is 1 inside.
    return update(state, jax.tree.map(lambda x: x[None], batch), axis_name=DATA)

  return jax.pmap(per_device, axis_name=DATA, in_axes=(None, 0), out_axes=None,
                  donate_argnums=0)


def shared() -> NamedSharding:
  """Whole on every device: how `on_pmap` returns the state."""
  return NamedSharding(jax.sharding.Mesh(jax.devices(), (DATA,)), PartitionSpec())


def split() -> NamedSharding:
  """Leading axis over the devices: how `on_pmap` takes a batch."""
  return NamedSharding(jax.sharding.Mesh(jax.devices(), (DATA,)), PartitionSpec(DATA))


def on_mesh(
    update: Callable[..., Any], mesh: jax.sharding.Mesh, state: types.TrainState
) -> Callable[..., Any]:
  """update under jit with shardings: the batch over all devices, weights by rule.

  Args:
    update: from make_update.
    mesh: from make_mesh; D of the batch is data * fsdp.
    state: arrays or ShapeDtypeStructs, for the tree's shape.

  Returns:
    (state, batch) -> (state, metrics), the state donated.
  """
  shardings = state_sharding(state, mesh)
  return jax.jit(update, in_shardings=(shardings, batch_sharding(mesh)),
                 out_shardings=(shardings, NamedSharding(mesh, PartitionSpec())),
                 donate_argnums=0)


def batch_sharding(mesh: jax.sharding.Mesh) -> NamedSharding:
  """Leading axis over every device of the mesh."""
  return NamedSharding(mesh, PartitionSpec((DATA, FSDP)))


def state_sharding(state: Any, mesh: jax.sharding.Mesh) -> Any:
  """A NamedSharding a leaf: large weights split over 'fsdp', the rest replicated.

  The rule needs no names: the largest axis that the fsdp size divides is split,
  for leaves of at least 2 axes. Optimiser moments and anchors have the shapes
  of their weights and so split alike.
  """
  size = mesh.shape[FSDP]

  def rule(x):
    shape = getattr(x, 'shape', ())
    axes = [i for i, n in enumerate(shape) if n % size == 0 and n >= size]
    if size == 1 or len(shape) < 2 or not axes or math.prod(shape) < 1024:
      return NamedSharding(mesh, PartitionSpec())
    axis = max(axes, key=lambda i: shape[i])
    return NamedSharding(mesh, PartitionSpec(*([None] * axis + [FSDP])))

  return jax.tree.map(rule, state)


def on_devices(sample: Callable[..., Any]) -> Callable[..., Any]:
  """The sampler once a device, each on its own prompts and rows.

  Args:
    sample: (params, rollout, key, version) -> (rollout, stats).

  Returns:
    The same function on a rollout whose leaves have a leading device axis and a
    key array of one key a device; see `split_rows` and `join_rows`. Each device
    leaves its loop when its own rows are done.
  """
  mapped = jax.pmap(sample, axis_name=DATA, in_axes=(None, 0, 0, None))

  def call(params, rollout, keys, version):
    # pmap refuses arrays that are placed otherwise, such as weights split over fsdp.
    return mapped(*jax.device_put(
        (params, rollout, keys, version), (shared(), split(), split(), shared())))
  return call


def split_rows(rollout: types.Rollout, num_devices: int) -> types.Rollout:
  """Leaves [B, ...] -> [D, B / D, ...], prompts likewise; indices become local.

  Rows of a prompt must stand on the device of the prompt: row block d holds
  only prompts of block d, as `begin` and `grow` on each share give.
  """
  cut = lambda x: x.reshape(num_devices, -1, *x.shape[1:])
  num_prompts = rollout.prompts.id.shape[0] // num_devices
  # Built without the row-axis check: two leading axes differ by design here.
  split = jax.tree.map(cut, rollout)
  return split.replace(prompt=split.prompt % num_prompts)


def join_rows(rollout: types.Rollout) -> types.Rollout:
  """The inverse of split_rows."""
  num_devices, num_prompts = rollout.prompts.id.shape
  offset = jnp.arange(num_devices, dtype=jnp.int32)[:, None] * num_prompts
  whole = rollout.replace(prompt=rollout.prompt + offset)
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)


def device_keys(key: Array, num_devices: int) -> Array:
  """One typed key a device: fold_in(key, device)."""
  return jax.vmap(functools.partial(jax.random.fold_in, key))(np.arange(num_devices))
