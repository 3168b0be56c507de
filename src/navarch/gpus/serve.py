"""The process that talks to the driver: it answers questions until its agent is gone.

Started by `child.NvmlChild`, and thrown away by it when the driver does not answer.
"""

import os
import sys
from collections.abc import Callable
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
    gpus = NvmlGpus(WallClock())
    while question := sys.stdin.buffer.read(LENGTH.size):
        topic = Topic(sys.stdin.buffer.read(LENGTH.unpack(question)[0]).decode())
        _write(answers, frame(encode(answer(gpus, topic))))


def answer(gpus: GpuReader, topic: Topic) -> Answer:
    """Return what the driver says about `topic`."""
    try:
        match topic:
            case Topic.GPUS:
                return Answer(gpus=tuple(gpus.list_gpus()))
            case Topic.METRICS:
                metrics, troubles = _of_each(gpus, gpus.metrics)
                return Answer(metrics=metrics, troubles=troubles)
            case Topic.HEALTH:
                health, troubles = _of_each(gpus, gpus.health)
                return Answer(health=health, troubles=troubles)
            case Topic.EVENTS:
                return _events(gpus)
    except GpuError as error:
        return Answer(trouble=_trouble(error))


def _of_each(gpus: GpuReader, read: Callable[[Gpu], T]) -> tuple[dict[str, T], dict[str, Trouble]]:
    found: dict[str, T] = {}
    troubles: dict[str, Trouble] = {}
    for gpu in gpus.list_gpus():
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
