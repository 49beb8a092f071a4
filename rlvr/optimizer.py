"""The optimiser: one optax chain, its numbers in the config."""

import optax

from rlvr import spec


def adam(
    *,
    learning_rate: float = 1e-6,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    max_grad_norm: float = 1.0,
    warmup_steps: int = 0,
    decay_steps: int = 0,
) -> optax.GradientTransformation:
  """Clip by global norm, then AdamW with linear warm-up and optional cosine decay.

  Args:
    learning_rate: peak.
    b1: decay of the first moment.
    b2: decay of the second moment; 0.99 forgets the noisy start of a run.
    eps: inside the division.
    weight_decay: decoupled; 0 is plain Adam.
    max_grad_norm: gradients above it are scaled down; 0 turns clipping off.
    warmup_steps: optimiser steps of linear warm-up; 0 for none.
    decay_steps: optimiser steps from the start to the cosine's end at 0; 0 keeps
      the rate constant.

  Raises:
    ValueError: a rate or step count out of range.

  Source: Decoupled Weight Decay Regularization (arXiv 1711.05101).
  """
  _at_least_zero('adam', learning_rate=learning_rate, weight_decay=weight_decay,
                 max_grad_norm=max_grad_norm, warmup_steps=warmup_steps, decay_steps=decay_steps)
  for name, value in (('b1', b1), ('b2', b2)):
    if not 0 <= value < 1:
      raise ValueError(f'adam: {name}={value} must be in [0, 1).')
  return _clipped(
      optax.adamw(_schedule(learning_rate, warmup_steps, decay_steps), b1=b1, b2=b2, eps=eps,
                  weight_decay=weight_decay), max_grad_norm)


def sgd(*, learning_rate: float = 1e-3, momentum: float = 0.0,
        max_grad_norm: float = 0.0) -> optax.GradientTransformation:
  """Plain gradient descent: what parallel tests use, since Adam hides a wrong scale.

  Args:
    learning_rate: constant.
    momentum: 0 for none.
    max_grad_norm: gradients above it are scaled down; 0 turns clipping off.

  Raises:
    ValueError: a negative number.
  """
  _at_least_zero('sgd', learning_rate=learning_rate, momentum=momentum,
                 max_grad_norm=max_grad_norm)
  return _clipped(optax.sgd(learning_rate, momentum=momentum or None), max_grad_norm)


def _schedule(peak, warmup_steps, decay_steps):
  if decay_steps and decay_steps <= warmup_steps:
    raise ValueError(
        f'adam: decay_steps={decay_steps} must exceed warmup_steps={warmup_steps}, or be 0.')
  if decay_steps:
    first = peak / warmup_steps if warmup_steps else peak
    return optax.warmup_cosine_decay_schedule(first, peak, warmup_steps, decay_steps)
  if warmup_steps:
    return optax.linear_schedule(peak / warmup_steps, peak, warmup_steps)
  return peak


def _clipped(transform, max_grad_norm):
  if not max_grad_norm:
    return transform
  return optax.chain(optax.clip_by_global_norm(max_grad_norm), transform)


def _at_least_zero(function, **values):
  for name, value in values.items():
    if value < 0:
      raise ValueError(f'{function}: {name}={value} must be at least 0.')


OPTIMIZERS = spec.make_table(adam, sgd)
