"""Kinds of value that several parts of a scenario share."""

from enum import StrEnum

from navarch.config.context import Scope as Reading
from navarch.config.document import Tree
from navarch.config.kinds import Choice, Integer, MapOf, Real
from navarch.config.suggestion import join_names

SHARE = Real(most=1.0, example="0.5")
WEIGHTS = MapOf(each=Real(example="50"))
ANY_NUMBER = Real(least=-1e9, example="10")
GPU_INDEX = Integer(least=-1, most=1023, example="0")
XID = Integer(least=0, most=99_999, example="79")


class FailureType(StrEnum):
    """What can go wrong with a machine."""

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
    """A GPU that is slower than it should be. Its machine finds nothing wrong with it."""
    CHECK = "check"
    """Whatever the check of a name may report: only an event can say which."""


class ByChance(Choice[FailureType]):
    """A failure that can befall any machine, which is to say one that needs no name."""

    @property
    def noun(self) -> str:
        """The words."""
        return join_names(each.value for each in FailureType if each is not FailureType.CHECK)

    def read(self, node: Tree, scope: Reading) -> FailureType:
        """Return the failure."""
        found = Choice.read(self, node, scope)
        if found is FailureType.CHECK:
            raise scope.refuse(
                node,
                "check: chance does not know which check",
                f"choose {self.noun}, or inject it with an event",
            )
        return found


class Scope(StrEnum):
    """Which machines a thing strikes together."""

    NODE = "node"
    RACK = "rack"
    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    PERCENTAGE = "percentage"
    ALL = "all"
