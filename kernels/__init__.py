"""Kernels: each folder is one operation. Imports nothing but jax, numpy and ml_dtypes."""

OWNER = 'rlvr'  # how rlvr tells this package from another of the same name
