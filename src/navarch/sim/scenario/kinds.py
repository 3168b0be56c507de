"""Kinds of value that several parts of a scenario share."""

from collections.abc import Iterator
from enum import StrEnum

from navarch.config.context import Scope
from navarch.config.document import Tree
from navarch.config.kinds import Choice, Integer, MapOf, Real
from navarch.config.schema import Fault
from navarch.config.suggestion import join_names

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
