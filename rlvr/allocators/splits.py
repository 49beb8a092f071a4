"""Fixed splits of a budget."""


def even_split(total: int, parts: int) -> tuple[int, ...]:
  """`total` over `parts` as evenly as whole numbers allow, the first get one more.

  ARC's mixed prompts: G rollouts over K strategies, (8, 3) -> (3, 3, 2); with
  fewer rollouts than strategies the last get none.

  Raises:
    ValueError: total is negative or parts not positive.
  """
  if total < 0 or parts < 1:
    raise ValueError(f'even_split: total={total} must be at least 0 and parts={parts} at least 1.')
  each, more = divmod(total, parts)
  return tuple(each + (part < more) for part in range(parts))
