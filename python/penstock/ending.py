"""What ends a long measurement: a batch system's SIGTERM is taken as Ctrl-C is, so that what has been measured is told.  Knows no measurement."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt.  In the main thread only."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
