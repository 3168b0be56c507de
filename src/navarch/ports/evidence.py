"""The ports for evidence: collected on a machine, stored and shown by the control plane."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote


class MachineFacts(Protocol):
    """Facts about a machine, read without its GPU driver. Calls may block; none raises."""

    def kernel_log(self) -> Sequence[str]:
        """Return the latest records of the kernel log, oldest first."""

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        """Return the PCI properties of each NVIDIA device, by address."""

    def processes(self) -> Sequence[Mapping[str, str]]:
        """Return the processes that hold a GPU."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of kernel, driver and other software."""


class Archive(Protocol):
    """Stores bundles. Storing one twice has no further effect."""

    async def keep(self, evidence: Evidence) -> None:
        """Store a bundle; delete the node's oldest bundles if there are too many."""

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""

    async def get(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle, or raise NotFoundError."""


class AgingFiles(Protocol):
    """Files of which old ones, and the oldest ones of too many, can be deleted."""

    async def prune(self, before: datetime, *, bytes_max: int) -> bool:
        """Look at some of the files, and delete those that are due; return whether more are left.

        Files that were written before that time are due, and the oldest ones as long as all of
        them together are larger than `bytes_max`.
        """


@runtime_checkable
class EvidenceApi(Protocol):
    """The API for evidence."""

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node, newest first."""

    async def get_evidence(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle, or raise NotFoundError."""


class EvidenceDesk(Protocol):
    """The receiver of evidence from agents."""

    async def report_evidence(self, evidence: Evidence) -> None:
        """Store a bundle; raises InvalidError if its content does not match its note."""
