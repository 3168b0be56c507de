"""XIDs from the driver's tracepoint `nvidia:nvidia_dev_xid` (R575 and later).

It is complete where `/dev/kmsg` may have been overrun, and structured, but it needs tracefs. A
tracing instance of our own leaves other tracing alone.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from navarch.ports.clock import Clock
from navarch.ports.host import HostError, KernelRecord

TRACEFS = Path("/sys/kernel/tracing")
INSTANCE = "navarch"
_EVENT = Path("events/nvidia/nvidia_dev_xid/enable")
_BYTES_AT_ONCE = 1 << 18


class Tracepoint:
    """Reads the trace of one event."""

    name = "tracepoint"
    lost = 0

    def __init__(self, clock: Clock, pipe: int, *, instance: Path | None = None) -> None:
        self._clock = clock
        self._pipe = pipe
        self._instance = instance
        self._unfinished = b""

    def read(self) -> Sequence[KernelRecord]:
        """Return the new lines."""
        try:
            chunk = os.read(self._pipe, _BYTES_AT_ONCE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise HostError(f"the tracepoint: {error.strerror}") from error
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        now = self._clock.now()
        texts = [line.decode("utf-8", "replace") for line in lines]
        return [KernelRecord(sequence=0, at=now, text=text, raw=text) for text in texts if text]

    def fileno(self) -> int:
        """Return the pipe's file descriptor."""
        return self._pipe

    def close(self) -> None:
        """Stop tracing."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._instance is not None:
            with contextlib.suppress(OSError):
                self._instance.rmdir()


def open_tracepoint(clock: Clock, tracefs: Path = TRACEFS) -> Tracepoint | None:
    """Start tracing; return None if the driver or the kernel does not support it."""
    if not (tracefs / _EVENT).exists():
        return None
    instance = tracefs / "instances" / INSTANCE
    try:
        instance.mkdir(exist_ok=True)
        (instance / _EVENT).write_text("1")
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    return Tracepoint(clock, pipe, instance=instance)
