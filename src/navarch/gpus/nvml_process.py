"""The child process that calls the driver: it replies to queries until the agent is gone.

Started by `child.NvmlChild`, and killed by it if the driver does not respond.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from navarch.core.instance import Gpu
from navarch.gpus.messages import LENGTH, Query, ReadFailure, Reply, encode, frame
from navarch.gpus.nvml import NvmlGpus
from navarch.ports.gpu import GpuError, GpuLostError, GpuReader

T = TypeVar("T")


class WallClock:
    """A minimal clock for event timestamps; the agent's clock would import half the agent."""

    def now(self) -> datetime:
        """Return wall time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this process is where time comes in

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return self.now().timestamp()

    async def sleep(self, seconds: float) -> None:
        """Raise: nothing sleeps in this process."""
        raise NotImplementedError(seconds)


def main() -> None:
    """Reply on standard output to queries on standard input."""
    # Keep the output of libraries out of the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gpus = ListedGpus(NvmlGpus(WallClock()))
    while length := sys.stdin.buffer.read(LENGTH.size):
        query = Query(sys.stdin.buffer.read(LENGTH.unpack(length)[0]).decode())
        replies.write(frame(encode(handle(gpus, query))))
        replies.flush()


class ListedGpus:
    """The GPUs as last listed.

    The agent lists GPUs before every reading. Listing them again would cost as much as the reading.
    """

    def __init__(self, reader: GpuReader) -> None:
        self.reader = reader
        self._last: tuple[Gpu, ...] = ()

    def refresh(self) -> tuple[Gpu, ...]:
        """List the GPUs again and return them."""
        self._last = ()  # A driver that fails to list GPUs has none to read.
        self._last = tuple(self.reader.list_gpus())
        return self._last

    def listed(self) -> tuple[Gpu, ...]:
        """Return the GPUs as last listed."""
        return self._last or self.refresh()


def handle(gpus: ListedGpus, query: Query) -> Reply:
    """Return the reply to a query."""
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
                events = tuple(gpus.reader.events())
                if events:
                    # The agent holds them from here on.
                    gpus.reader.settle(events[-1].number)
                return Reply(events=events)
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


def _failure(error: GpuError) -> ReadFailure:
    return ReadFailure(text=str(error), lost=isinstance(error, GpuLostError))


if __name__ == "__main__":
    main()
