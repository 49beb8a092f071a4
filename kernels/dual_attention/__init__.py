"""Shared-prompt attention for training: a prompt's keys serve all its responses."""

from kernels.dual_attention.api import causal_attention
from kernels.dual_attention.api import dual_attention

__all__ = ['causal_attention', 'dual_attention']
