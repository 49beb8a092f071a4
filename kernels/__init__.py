"""Kernels: each folder is one operation. Imports nothing but jax, numpy and ml_dtypes."""
