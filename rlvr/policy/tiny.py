"""A byte-level toy decoder for tests, sweeps and laptops: runs take seconds."""

from rlvr.policy import config as config_lib

SIZES = {
    'nano': dict(num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, d_ff=128),
    'micro': dict(num_layers=2, d_model=64, num_heads=4, num_kv_heads=2, head_dim=16, d_ff=256),
}


def config(*, size: str = 'nano', vocab_size: int = 259) -> config_lib.ModelConfig:
  """The shape of a toy model; 259 ids are PAD, BOS, EOS and the 256 bytes.

  Raises:
    ValueError: an unknown size.
  """
  if size not in SIZES:
    raise ValueError(f'tiny size is {size!r}; expected one of {", ".join(SIZES)}.')
  return config_lib.ModelConfig(
      family='llama', vocab_size=vocab_size, tie_embeddings=True, max_positions=512,
      **SIZES[size])
