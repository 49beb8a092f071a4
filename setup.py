"""Packaging: four top-level packages, because users call them by these names."""

import setuptools

_CORE = [
    'absl-py>=2.1',
    'chex>=0.1.90',
    'flax>=0.12',
    'grain>=0.2.12',
    'jax>=0.10',
    'ml-dtypes>=0.5',
    'ml-collections>=1.0',
    'numpy>=2.0',
    'optax>=0.2.6',
    'orbax-checkpoint>=0.11.30',
    'tensorstore>=0.1.70',
    # Weights, tokens and chat templates.
    'gguf>=0.17',
    'jinja2>=3.1.6',
    'safetensors>=0.5',
    'tokenizers>=0.21',
    # Tasks and grading.
    'math-verify[antlr4-13-2]>=0.8',
    'pyarrow>=17',
    'reasoning-gym>=0.1.20',
    # What a run leaves behind.
    'matplotlib>=3.9',
    'tensorboardX>=2.6',
]

setuptools.setup(
    name='rlvr',
    version='0.1.0',
    description='A JAX laboratory for reinforcement learning with verifiable rewards.',
    license='Apache-2.0',
    python_requires='>=3.11',
    packages=setuptools.find_packages(include=[
        'rlvr', 'rlvr.*', 'kernels', 'kernels.*', 'experiments', 'experiments.*',
        'launch', 'launch.*']),
    install_requires=_CORE,
    extras_require={
        'test': ['hypothesis>=6.100', 'pytest>=8', 'pytest-xdist>=3.5', 'ruff>=0.8'],
        'tpu': ['jax[tpu]>=0.10'],
        'cuda': ['jax[cuda13]>=0.10'],
    },
)
