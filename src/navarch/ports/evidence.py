"""The ports for evidence: collected on a machine, stored and shown by the control plane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.core.receipt import KeptEvidence


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

    async def keep(self, evidence: KeptEvidence) -> None:
        """Store a bundle; delete the node's oldest bundles if there are too many."""

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""

    async def get(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle, or raise NotFoundError."""


class Signer(Protocol):
    """Makes signatures with a key that follows from 32 secret bytes."""

    def public_of(self, secret: bytes) -> bytes:
        """Return the public key of a secret."""

    def sign(self, secret: bytes, message: bytes) -> bytes:
        """Return the signature of a message."""

    def to_pem(self, public: bytes) -> str:
        """Return a public key as PEM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceKey:
    """A public key with which the cluster signs evidence, or has signed it."""

    id: str
    pem: str
    """The key as OpenSSL reads it."""
    created_at: datetime
    retired_at: datetime | None = None
    """Since when it signs nothing more; what it has signed stays valid."""


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

    async def get_evidence(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle with its receipt, or raise NotFoundError."""

    async def list_evidence_keys(self) -> Sequence[EvidenceKey]:
        """Return the keys of the cluster, the present one first; none before the first bundle."""

    async def rotate_evidence_key(self, *, reason: str) -> EvidenceKey:
        """Delete the secret of the present key, and sign with a new one; return the new one."""


class EvidenceDesk(Protocol):
    """The receiver of evidence from agents."""

    async def report_evidence(self, evidence: Evidence) -> None:
        """Store a bundle; raises InvalidError if its content does not match its note."""
