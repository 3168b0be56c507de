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
    POWER = "power"
    """The machine is off. It boots again when the failure is over."""
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
    POOL = "pool"
    LABEL = "label"
    PERCENTAGE = "percentage"
    ALL = "all"


class Software(StrEnum):
    """The software of a machine that can be rolled out."""

    DRIVER = "driver"
    IMAGE = "image"
    KERNEL = "kernel"
    AGENT_VERSION = "agent_version"


def check_place(scope: TargetScope, target: str) -> Iterator[Fault]:
    """Yield a fault unless the target names a place of that scope."""
    if scope is TargetScope.PERCENTAGE:
        yield from check_percentage(target)
    if scope is TargetScope.LABEL and not all(target.partition("=")[::2]):
        yield Fault(
            f'target must be a label and its value, not "{target}"',
            "write target: power_feed=feed-2, for example",
            at=("target",),
        )


def check_percentage(target: str) -> Iterator[Fault]:
    """Yield a fault unless the target is a percentage."""
    if parse_percentage(target) is None:
        yield Fault(
            f'target must be a percentage, not "{target}"',
            'write target: "10" for a tenth of the fleet',
            at=("target",),
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
            "checkpoint_every is longer than the job",
            "leave it out for a job without checkpoints",
            at=("checkpoint_every",),
        )


def _check_repeats(count: int, every: timedelta | None) -> Iterator[Fault]:
    if every is not None and count == 1:
        yield Fault("every goes with count", "add count: 10, for example", at=("every",))


@block(rules=(_check_checkpoints, _check_repeats))
class JobConfig:
    """A job: tasks that run together, each on one node, until its work is done."""

    name: str = key(TEXT, "the name of the job; with `count`, a number is appended")
    queue: str = key(TEXT, "the queue it is submitted to", default="default")
    at: timedelta = key(DURATION_OR_ZERO, "when it is submitted", default=timedelta(0))
    count: int = key(Integer(least=1, most=1_000_000), "the number of such jobs", default=1)
    every: timedelta | None = key(
        DURATION, "the time between submissions; all at once if left out", default=None
    )
    tasks: int = key(Integer(least=1, most=100_000), "the number of nodes it needs", default=1)
    gpus: int = key(Integer(least=1, most=1024), "GPUs per task", default=8)
    duration: timedelta = key(DURATION, "how long its work takes without failures")
    checkpoint_every: timedelta | None = key(
        DURATION, "how often it saves its work; never if left out", default=None
    )
    checkpoint_takes: timedelta = key(
        DURATION_OR_ZERO, "how long work pauses for a checkpoint", default=timedelta(0)
    )
    restart_takes: timedelta = key(
        DURATION_OR_ZERO, "the time between each start and its first work", default=timedelta(0)
    )
    priority: int = key(Integer(least=0, most=1_000_000), "higher goes first", default=50)
    preemptible: bool = key(BOOLEAN, "whether it may be evicted for other jobs", default=True)
    pool: str | None = key(TEXT, "the only pool it may run on", default=None)
