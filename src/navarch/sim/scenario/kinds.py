"""Kinds of value that several parts of a scenario share."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.context import Scope
from navarch.config.document import Tree
from navarch.config.errors import join_names
from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    TEXT,
    Choice,
    Integer,
    MapOf,
    Real,
)
from navarch.config.schema import Fault, block, key

SHARE = Real(most=1.0, example="0.5")
WEIGHTS = MapOf(each=Real(example="50"))
ANY_NUMBER = Real(least=-1e9, example="10")
GPU_INDEX = Integer(least=-1, most=1023, example="0")
XID = Integer(least=0, most=99_999, example="79")


class FailureType(StrEnum):
    """The ways in which a machine can fail."""

    XID_ERROR = "xid_error"
    TEMPERATURE = "temperature"
    NVML_FAILURE = "nvml_failure"
    BACKEND_ERROR = "backend_error"
    BOOT_FAILURE = "boot_failure"
    DEVICE_ERROR = "device_error"
    MEMORY_ERROR = "memory_error"
    NVLINK_ERROR = "nvlink_error"
    NETWORK = "network"
    STRAGGLER = "straggler"
    """A GPU that is slower than its peers. The checks on its machine find nothing."""
    CHECK = "check"
    """A failing check of any name. Only events can inject it, because they name the check."""


class RandomFailureType(Choice[FailureType]):
    """A failure type that chaos can draw: all of them except `check`, which needs a name."""

    @property
    def noun(self) -> str:
        """The types that can be drawn."""
        return join_names(each.value for each in FailureType if each is not FailureType.CHECK)

    def read(self, node: Tree, scope: Scope) -> FailureType:
        """Return the failure type."""
        found = Choice.read(self, node, scope)
        if found is FailureType.CHECK:
            raise scope.refuse(
                node,
                "check cannot be drawn at random: it needs the name of a check",
                f"choose {self.noun}, or inject it with an event",
            )
        return found


class TargetScope(StrEnum):
    """The group of machines that a target names."""

    NODE = "node"
    RACK = "rack"
    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    PERCENTAGE = "percentage"
    ALL = "all"


def check_percentage(target: str) -> Iterator[Fault]:
    """Yield a fault unless the target is a percentage."""
    if parse_percentage(target) is None:
        yield Fault(
            at=("target",),
            message=f'target must be a percentage, not "{target}"',
            remedy='write target: "10" for a tenth of the fleet',
        )


def parse_percentage(text: str) -> float | None:
    """Return `10` or `10%` as the fraction 0.1, or None if the text is not a percentage."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        return None
    return value / 100 if 0 <= value <= 100 else None


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
