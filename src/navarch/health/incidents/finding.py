"""Findings with their place: the input that incidents are grouped from."""

import re
from datetime import datetime

import msgspec

from navarch.core.health import CheckResult, Health
from navarch.core.incident import IncidentKind
from navarch.core.instance import NoticeKind
from navarch.core.node import Node
from navarch.health.xid.catalogue import SXIDS_FROM

NVLINK_LABEL = "nvlink_domain"
"""The label with a node's NVLink domain. A node without it is a domain of its own."""


_CAUSED = re.compile(r"caused by previous Xid \d+")

_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})")

_SIGNS = frozenset({"43", "45", "154"})
"""Cleaned-up channels and the driver's recovery action: symptoms of another error, if there is
one."""
_DETAILS = frozenset({"63", "64", "94", "95", "140", "171", "172"})
"""The consequences of a memory error: its location, the affected process, the remapped row."""

_NOTICES = frozenset(kind.value for kind in NoticeKind)
_NETWORK = frozenset({"infiniband"})
_FABRIC = frozenset({"nvlink", "fabric"})
_HOST = frozenset(
    {"disk", "mounts", "oom", "clock", "memory", "edac", "patterns", "holders", "settings", "drift"}
)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A check result on a node, as the policy judged it."""

    node: Node
    result: CheckResult
    at: datetime

    @property
    def is_notice(self) -> bool:
        """Whether it is a provider's notice, which is no fault of the machine."""
        return self.result.check.partition("/")[0] in _NOTICES

    @property
    def code(self) -> str:
        """The XID or SXid; empty if there is none."""
        return self.result.facts.get("code", "")

    @property
    def gpu(self) -> str:
        """The UUID of the GPU, or the name of the switch; empty if unknown."""
        return self.result.facts.get("gpu", "")

    @property
    def slot(self) -> str:
        """The PCI address of the device, such as `0000:1b:00`; empty if unknown."""
        printed = self.result.facts.get("pci")
        found = _PCI.search(printed.lower()) if printed else None
        return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}" if found else ""

    @property
    def pid(self) -> str:
        """The process that was affected; empty if unknown."""
        return self.result.facts.get("pid", "")

    @property
    def domain(self) -> str:
        """The NVLink domain of the node."""
        return self.node.labels.get(NVLINK_LABEL) or str(self.node.id)

    @property
    def kind(self) -> IncidentKind:
        """The kind of incident that this finding alone would open."""
        if self.code:
            origin = self.result.facts.get("class", "")
            if origin == "fabric" or (self.code.isdecimal() and int(self.code) >= SXIDS_FROM):
                return IncidentKind.FABRIC
            return IncidentKind.APPLICATION if origin == "app" else IncidentKind.HARDWARE
        check = self.result.check.partition("/")[0]
        if check in _FABRIC:
            return IncidentKind.FABRIC
        if check in _NETWORK:
            return IncidentKind.NETWORK
        return IncidentKind.HOST if check in _HOST else IncidentKind.HARDWARE

    @property
    def opens(self) -> bool:
        """Whether it opens an incident, rather than only joining one."""
        if self.result.health is not Health.HEALTHY:
            return True
        return self.kind is IncidentKind.APPLICATION and bool(self.code)


def rank_of(code: str, reason: str) -> int:
    """Return how likely an error is the cause; lower is likelier.

    XIDs come first, then the consequences of a memory error, then measurements of checks, and last
    errors that are always symptoms of another.
    """
    if code in _SIGNS or _CAUSED.search(reason):
        return 3
    if not code:
        return 2
    return 1 if code in _DETAILS else 0
