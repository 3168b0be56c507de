"""Jobs that run on the nodes of a scenario."""

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


def _check_checkpoints(duration: timedelta, checkpoint_every: timedelta | None) -> Iterator[Fault]:
    if checkpoint_every is not None and checkpoint_every > duration:
        yield Fault(
            at=("checkpoint_every",),
            message="checkpoint_every is longer than the job",
            remedy="leave it out for a job without checkpoints",
        )


def _check_repeats(count: int, every: timedelta | None) -> Iterator[Fault]:
    if every is not None and count == 1:
        yield Fault(
            at=("every",), message="every goes with count", remedy="add count: 10, for example"
        )


@block(rules=(_check_checkpoints, _check_repeats))
class JobConfig:
    """A job: tasks that run together, each on one node, until its work is done."""

    name: str = key(TEXT, doc="the name of the job; with `count`, a number is appended")
    queue: str = key(TEXT, default="default", doc="the queue it is submitted to")
    at: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="when it is submitted")
    count: int = key(Integer(least=1, most=1_000_000), default=1, doc="the number of such jobs")
    every: timedelta | None = key(
        DURATION, default=None, doc="the time between submissions; all at once if left out"
    )
    tasks: int = key(Integer(least=1, most=100_000), default=1, doc="the number of nodes it needs")
    gpus: int = key(Integer(least=1, most=1024), default=8, doc="GPUs per task")
    duration: timedelta = key(DURATION, doc="how long its work takes without failures")
    checkpoint_every: timedelta | None = key(
        DURATION, default=None, doc="how often it saves its work; never if left out"
    )
    checkpoint_takes: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="how long work pauses for a checkpoint"
    )
    restart_takes: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the time between each start and its first work"
    )
    priority: int = key(Integer(least=0, most=1_000_000), default=50, doc="higher goes first")
    preemptible: bool = key(BOOLEAN, default=True, doc="whether it may be evicted for other jobs")
    pool: str | None = key(TEXT, default=None, doc="the only pool it may run on")
