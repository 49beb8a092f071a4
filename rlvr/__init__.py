"""Reinforcement learning with verifiable rewards in JAX. Imports no jax: see rlvr.host.verify_pool."""
