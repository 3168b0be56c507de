"""Work: jobs that run on the nodes."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    TEXT,
    Integer,
)
from navarch.config.schema import Fault, block, key


def _steps_within(duration: timedelta, checkpoint_every: timedelta | None) -> Iterator[Fault]:
    if checkpoint_every is not None and checkpoint_every > duration:
        yield Fault(
            at=("checkpoint_every",),
            message="checkpoint_every is longer than the job",
            remedy="leave it out for a job without checkpoints",
        )


def _repeats(count: int, every: timedelta | None) -> Iterator[Fault]:
    if every is not None and count == 1:
        yield Fault(
            at=("every",), message="every goes with count", remedy="add count: 10, for example"
        )


@block(rules=(_steps_within, _repeats))
class JobConfig:
    """A job: tasks that run together, on one node each, until its work is done."""

    name: str = key(TEXT, doc="what to call it; several get a number each")
    queue: str = key(TEXT, default="default", doc="who waits with it")
    at: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="when it is submitted")
    count: int = key(Integer(least=1, most=1_000_000), default=1, doc="how many of them")
    every: timedelta | None = key(
        DURATION, default=None, doc="how far apart they are submitted; together if left out"
    )
    tasks: int = key(Integer(least=1, most=100_000), default=1, doc="how many nodes it runs on")
    gpus: int = key(Integer(least=1, most=1024), default=8, doc="how many GPUs each task takes")
    duration: timedelta = key(DURATION, doc="how long its work takes without trouble")
    checkpoint_every: timedelta | None = key(
        DURATION, default=None, doc="how often it saves its work; never if left out"
    )
    checkpoint_takes: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="how long it stands still for that"
    )
    restart_takes: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="how long it takes from a start to work"
    )
    priority: int = key(Integer(least=0, most=1_000_000), default=50, doc="higher goes first")
    preemptible: bool = key(BOOLEAN, default=True, doc="whether it may be made to wait again")
    pool: str | None = key(TEXT, default=None, doc="the only pool it may run on")
