"""The process that talks to the driver: it answers questions until its agent is gone.

Started by `child.NvmlChild`, and thrown away by it when the driver does not answer.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from navarch.core.inventory import Gpu
from navarch.gpus.nvml import NvmlGpus
from navarch.gpus.question import LENGTH, Answer, Topic, Trouble, encode, frame
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
    """Answer on standard output what is asked on standard input."""
    # What libraries print must not end up between the answers.
    answers = os.dup(1)
    os.dup2(2, 1)
    gpus = LastListed(NvmlGpus(WallClock()))
    while question := sys.stdin.buffer.read(LENGTH.size):
        topic = Topic(sys.stdin.buffer.read(LENGTH.unpack(question)[0]).decode())
        _write(answers, frame(encode(answer(gpus, topic))))


class LastListed:
    """The GPUs as they were listed last.

    The agent lists them before it reads them, every time. To list them again for the reading
    would cost as much as the reading.
    """

    def __init__(self, reader: GpuReader) -> None:
        self.reader = reader
        self._last: tuple[Gpu, ...] = ()

    def list_again(self) -> tuple[Gpu, ...]:
        """Return what the driver lists now."""
        self._last = ()  # A driver that fails to list them has no GPUs to read.
        self._last = tuple(self.reader.list_gpus())
        return self._last

    def listed(self) -> tuple[Gpu, ...]:
        """Return what was listed last."""
        return self._last or self.list_again()


def answer(gpus: LastListed, topic: Topic) -> Answer:
    """Return what the driver says about `topic`."""
    try:
        match topic:
            case Topic.GPUS:
                return Answer(gpus=gpus.list_again())
            case Topic.METRICS:
                metrics, troubles = _of_each(gpus.listed(), gpus.reader.metrics)
                return Answer(metrics=metrics, troubles=troubles)
            case Topic.HEALTH:
                health, troubles = _of_each(gpus.listed(), gpus.reader.health)
                return Answer(health=health, troubles=troubles)
            case Topic.EVENTS:
                return _events(gpus.reader)
    except GpuError as error:
        return Answer(trouble=_trouble(error))


def _of_each(
    gpus: Sequence[Gpu], read: Callable[[Gpu], T]
) -> tuple[dict[str, T], dict[str, Trouble]]:
    found: dict[str, T] = {}
    troubles: dict[str, Trouble] = {}
    for gpu in gpus:
        try:
            found[gpu.uuid] = read(gpu)
        except GpuError as error:
            troubles[gpu.uuid] = _trouble(error)
    return found, troubles


def _events(gpus: GpuReader) -> Answer:
    """Hand events over: from here on they are the agent's to remember."""
    events = tuple(gpus.events())
    if events:
        gpus.settle(events[-1].number)
    return Answer(events=events)


def _trouble(error: GpuError) -> Trouble:
    return Trouble(words=str(error), lost=isinstance(error, GpuLostError))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main()
