"""Evidence: gathered on a machine, kept by the control plane, shown to whoever asks."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from navarch.core.evidence import Evidence, EvidenceNote
from navarch.core.ids import NodeId


class MachineFacts(Protocol):
    """What can be read of a machine without its GPU driver. Calls may block; none raises."""

    def kernel_log(self) -> Sequence[str]:
        """Return the latest records of the kernel's log, oldest first."""
        ...

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        """Return what the bus says of each NVIDIA device, by address."""
        ...

    def processes(self) -> Sequence[Mapping[str, str]]:
        """Return the processes that hold a GPU."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return kernel, driver and whatever else has a version."""
        ...


class Archive(Protocol):
    """Keeps bundles. Keeping one twice is keeping it once."""

    async def keep(self, evidence: Evidence) -> None:
        """Keep a bundle, and let go of the node's oldest where there are too many."""
        ...

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return what is kept of a node, newest first."""
        ...

    async def get(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle, or raise NotFoundError."""
        ...


@runtime_checkable
class EvidenceApi(Protocol):
    """What operators may ask about evidence."""

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node, newest first."""
        ...

    async def get_evidence(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle, or raise NotFoundError."""
        ...


class EvidenceDesk(Protocol):
    """Where agents hand evidence in."""

    async def report_evidence(self, evidence: Evidence) -> None:
        """Keep a bundle; InvalidError for one that is not what it says it is."""
        ...
