"""The process that talks to the driver: it replies questions until its agent is gone.

Started by `child.NvmlChild`, and thrown away by it when the driver does not reply.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from navarch.core.inventory import Gpu
from navarch.gpus.messages import LENGTH, Query, ReadFailure, Reply, encode, frame
from navarch.gpus.nvml import NvmlGpus
from navarch.ports.gpu import GpuError, GpuLostError, GpuReader

T = TypeVar("T")


class WallClock:
    """Only what stamping an event takes; the agent's own clock would bring half the agent."""

    def now(self) -> datetime:
        """Return wall time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this process is where time comes in

    def monotonic(self) -> float:
        """Return seconds since some start."""
        return self.now().timestamp()

    async def sleep(self, seconds: float) -> None:
        """Refuse: nothing waits here."""
        raise NotImplementedError(seconds)


def main() -> None:
    """Reply on standard output what is asked on standard input."""
    # What libraries print must not end up between the replies.
    replies = os.dup(1)
    os.dup2(2, 1)
    gpus = ListedGpus(NvmlGpus(WallClock()))
    while length := sys.stdin.buffer.read(LENGTH.size):
        query = Query(sys.stdin.buffer.read(LENGTH.unpack(length)[0]).decode())
        _write(replies, frame(encode(handle(gpus, query))))


class ListedGpus:
    """The GPUs as they were listed last.

    The agent lists them before it reads them, every time. To list them again for the reading
    would cost as much as the reading.
    """

    def __init__(self, reader: GpuReader) -> None:
        self.reader = reader
        self._last: tuple[Gpu, ...] = ()

    def refresh(self) -> tuple[Gpu, ...]:
        """Return what the driver lists now."""
        self._last = ()  # A driver that fails to list them has no GPUs to read.
        self._last = tuple(self.reader.list_gpus())
        return self._last

    def listed(self) -> tuple[Gpu, ...]:
        """Return what was listed last."""
        return self._last or self.refresh()


def handle(gpus: ListedGpus, query: Query) -> Reply:
    """Return what the driver says about `query`."""
    try:
        match query:
            case Query.GPUS:
                return Reply(gpus=gpus.refresh())
            case Query.METRICS:
                metrics, failures = _of_each(gpus.listed(), gpus.reader.metrics)
                return Reply(metrics=metrics, failures=failures)
            case Query.HEALTH:
                health, failures = _of_each(gpus.listed(), gpus.reader.health)
                return Reply(health=health, failures=failures)
            case Query.EVENTS:
                return _events(gpus.reader)
    except GpuError as error:
        return Reply(failure=_failure(error))


def _of_each(
    gpus: Sequence[Gpu], read: Callable[[Gpu], T]
) -> tuple[dict[str, T], dict[str, ReadFailure]]:
    found: dict[str, T] = {}
    failures: dict[str, ReadFailure] = {}
    for gpu in gpus:
        try:
            found[gpu.uuid] = read(gpu)
        except GpuError as error:
            failures[gpu.uuid] = _failure(error)
    return found, failures


def _events(gpus: GpuReader) -> Reply:
    """Hand events over: from here on they are the agent's to remember."""
    events = tuple(gpus.events())
    if events:
        gpus.settle(events[-1].number)
    return Reply(events=events)


def _failure(error: GpuError) -> ReadFailure:
    return ReadFailure(text=str(error), lost=isinstance(error, GpuLostError))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main()
