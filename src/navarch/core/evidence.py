"""Evidence: the state of a machine at the moment when a fault was found."""

from dataclasses import dataclass
from datetime import datetime

from navarch.core.ids import NodeId

CONTENT_BYTES_MAX = 700_000
"""The limit of a compressed bundle: it is sent in one request of at most a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceNote:
    """The description of one bundle, without its content."""

    id: str
    node: NodeId
    taken_at: datetime
    why: str
    sha256: str
    """The digest of the stored content."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One bundle: JSON, compressed with gzip."""

    note: EvidenceNote
    content: bytes
