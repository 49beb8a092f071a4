"""TensorBoard events, written in the calling thread: a full disk is an error, not a hang."""

import os
import pathlib
from collections.abc import Mapping


class Events:
  """RUN/tensorboard; `write` returns when the operating system has the numbers."""

  def __init__(self, run_dir: str | os.PathLike, *, first_step: int | None = None):
    """first_step: readers drop older events from this step on; None keeps all."""
    # Here: these take half a second that a reader of metrics need not pay.
    from tensorboardX import event_file_writer
    from tensorboardX import summary
    from tensorboardX.proto import event_pb2
    self._event, self._scalar = event_pb2, summary.scalar
    self._folder = pathlib.Path(run_dir) / 'tensorboard'
    self._folder.mkdir(exist_ok=True)
    self._file = event_file_writer.EventsWriter(str(self._folder / 'events'))
    if first_step is not None:
      start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
      self._file.write_event(event_pb2.Event(step=first_step, session_log=start))

  def write(self, step: int, values: Mapping[str, float], wall_time: float) -> None:
    """Raises: OSError, one sentence, where the disk is full."""
    try:
      for name, value in values.items():
        # TensorBoard allows no '@' in a tag.
        scalar = self._scalar(name.replace('@', '_'), value)
        self._file.write_event(
            self._event.Event(step=step, wall_time=wall_time, summary=scalar))
      self._file.flush()
    except OSError as error:
      raise self._failed(error) from error

  def close(self) -> None:
    """Raises: OSError, one sentence, where the disk is full; calling it twice is harmless."""
    file, self._file = self._file, None
    if file is not None:
      try:
        file.close()
      except OSError as error:
        raise self._failed(error) from error

  def _failed(self, error):
    return type(error)(error.errno, f'{self._folder} cannot be written: {error.strerror}')
