"""A finding with the place it was made at: what incidents are grouped from."""

import re
from dataclasses import dataclass
from datetime import datetime

from navarch.core.drafting import drafted
from navarch.core.health import HEALTHY, CheckResult
from navarch.core.incident import APPLICATION, FABRIC, IncidentKind
from navarch.core.node import Node
from navarch.core.notice import NoticeKind

NVLINK_LABEL = "nvlink_domain"
"""How a node says which NVLink domain it is part of; without it, it is one by itself."""

SXIDS_FROM = 10_000

_CAUSED = re.compile(r"caused by previous Xid \d+")

_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})")

_SIGNS = frozenset({"43", "45", "154"})
"""Channels that were cleared away, and the driver's word about what it needs: always of
something else, where there is something else."""
_DETAILS = frozenset({"63", "64", "94", "95", "140", "171", "172"})
"""What becomes of a memory error: where it was, whom it hit, which row is remapped."""

_NOTICES = frozenset(kind.value for kind in NoticeKind)
_NETWORK = frozenset({"infiniband"})
_FABRIC = frozenset({"nvlink", "fabric"})
_HOST = frozenset(
    {"disk", "mounts", "oom", "clock", "memory", "edac", "patterns", "holders", "settings", "drift"}
)


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found on a node, as the policy sees it."""

    node: Node
    result: CheckResult
    at: datetime

    @property
    def is_notice(self) -> bool:
        """Whether it is the provider's word on what it will do: no fault, whoever it is about."""
        return self.result.check.partition("/")[0] in _NOTICES

    @property
    def code(self) -> str:
        """Its number, where it has one."""
        return self.result.facts.get("code", "")

    @property
    def gpu(self) -> str:
        """The GPU, or the switch, it is about; empty if the finding does not say."""
        return self.result.facts.get("gpu", "")

    @property
    def slot(self) -> str:
        """Where in the machine that sits, as `0000:1b:00`; empty if the finding does not say."""
        said = self.result.facts.get("pci")
        found = _PCI.search(said.lower()) if said else None
        return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}" if found else ""

    @property
    def pid(self) -> str:
        """The process it happened to."""
        return self.result.facts.get("pid", "")

    @property
    def domain(self) -> str:
        """The NVLink domain of the node."""
        return self.node.labels.get(NVLINK_LABEL) or str(self.node.id)

    @property
    def kind(self) -> IncidentKind:
        """Whose fault it is, taken by itself."""
        code = self.code
        if code:
            return self._kind_of(code)
        check = self.result.check.partition("/")[0]
        if check in _FABRIC:
            return FABRIC
        if check in _NETWORK:
            return IncidentKind.NETWORK
        return IncidentKind.HOST if check in _HOST else IncidentKind.HARDWARE

    def _kind_of(self, code: str) -> IncidentKind:
        origin = self.result.facts.get("class", "")
        if origin == "fabric" or (code.isdecimal() and int(code) >= SXIDS_FROM):
            return FABRIC
        return APPLICATION if origin == "app" else IncidentKind.HARDWARE

    @property
    def rank(self) -> int:
        """How likely it is a cause; the lower, the likelier."""
        return rank_of(self.code, self.result.reason)

    @property
    def opens(self) -> bool:
        """Whether it is a story by itself, or at most a part of one."""
        if self.result.health is not HEALTHY:
            return True
        return self.kind is APPLICATION and bool(self.code)


def rank_of(code: str, words: str) -> int:
    """Return how likely something is a cause; the lower, the likelier.

    What has a number goes first, then the details of one, then what a check measured, and last
    what is always a sign of something else.
    """
    if code in _SIGNS or _CAUSED.search(words):
        return 3
    if not code:
        return 2
    return 1 if code in _DETAILS else 0
