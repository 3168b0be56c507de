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
_KIND_OF_ORIGIN = {"fabric": IncidentKind.FABRIC, "app": IncidentKind.APPLICATION}
_KIND_OF_CHECK = {
    **dict.fromkeys(("nvlink", "fabric", "fabric_manager"), IncidentKind.FABRIC),
    "infiniband": IncidentKind.NETWORK,
    **dict.fromkeys(("disk", "mounts", "oom", "clock", "memory", "edac"), IncidentKind.HOST),
    **dict.fromkeys(("patterns", "holders", "settings", "drift"), IncidentKind.HOST),
}
"""The kind of an error by its class, and of a measurement by its check; all others are hardware."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A check result on a node, as the policy judged it, with its place."""

    node: Node
    result: CheckResult
    at: datetime
    kind: IncidentKind
    """The kind of incident that this finding alone would open."""
    is_notice: bool
    """Whether it is a provider's notice, which is no fault of the machine."""
    opens: bool
    """Whether it opens an incident, rather than only joining one."""
    rank: int
    """How likely it is the cause; see `rank_of`."""
    code: str
    """The XID or SXid; empty if there is none."""
    gpu: str
    """The UUID of the GPU, or the name of the switch; empty if unknown."""
    slot: str
    """The PCI address of the device, such as `0000:1b:00`; empty if unknown."""
    pid: str
    """The process that was affected; empty if unknown."""
    domain: str
    """The NVLink domain of the node."""


def finding_of(node: Node, result: CheckResult, at: datetime) -> Finding:
    """Return the finding of a result on `node`."""
    facts, check = result.facts, result.check.partition("/")[0]
    code = facts.get("code", "")
    if code.isdecimal() and int(code) >= SXIDS_FROM:
        kind = IncidentKind.FABRIC
    elif code:
        kind = _KIND_OF_ORIGIN.get(facts.get("class", ""), IncidentKind.HARDWARE)
    else:
        kind = _KIND_OF_CHECK.get(check, IncidentKind.HARDWARE)
    is_crash = kind is IncidentKind.APPLICATION
    pci = _PCI.search(facts.get("pci", "").lower())
    return Finding(
        node=node,
        result=result,
        at=at,
        kind=kind,
        is_notice=check in _NOTICES,
        opens=is_crash or result.health is not Health.HEALTHY,
        rank=rank_of(code, result.reason),
        code=code,
        gpu=facts.get("gpu", ""),
        slot=f"{int(pci[1], 16):04x}:{pci[2]}:{pci[3]}" if pci else "",
        pid=facts.get("pid", ""),
        domain=node.labels.get(NVLINK_LABEL) or str(node.id),
    )


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
