"""Where the state and the batches of a run lie: on every device, or split over a mesh."""

import jax

from rlvr.train import parallel


def update(c, step, abstract):
  """`step` on the devices that there are."""
  if c.parallel.kind == 'mesh':
    return parallel.on_mesh(step, _mesh(c), abstract)
  return parallel.on_pmap(step)


def state_place(c, abstract):
  """The sharding of a state as `update` returns it."""
  return (parallel.state_sharding(abstract, _mesh(c)) if c.parallel.kind == 'mesh' else
          parallel.shared())


def init(c, function, abstract):
  """`function` placed as `update` returns the state: else the second step compiles all again."""
  return lambda: jax.device_put(function(), state_place(c, abstract))


def prepare(c, function):
  """`function` under jit, its batches placed as `update` takes them."""
  batch = (parallel.batch_sharding(_mesh(c)) if c.parallel.kind == 'mesh' else
           parallel.split())
  return jax.jit(function, out_shardings=(batch, None, None))


def _mesh(c):
  return parallel.make_mesh(len(jax.devices()) // c.parallel.fsdp, c.parallel.fsdp)
