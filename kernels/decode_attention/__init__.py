"""Attention of one new token a row over its prompt's shared keys and its own."""

from kernels.decode_attention.api import decode_attention

__all__ = ['decode_attention']
