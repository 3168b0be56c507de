"""What was true of a machine at the moment something was found wrong with it."""

from dataclasses import dataclass
from datetime import datetime

from navarch.core.ids import NodeId

CONTENT_BYTES_MAX = 700_000
"""Compressed; a bundle goes to the control plane in one request, which may be a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceNote:
    """One bundle, without what is in it."""

    id: str
    node: NodeId
    taken_at: datetime
    why: str
    sha256: str
    """Of the content, as it is kept."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One bundle: JSON, compressed with gzip."""

    note: EvidenceNote
    content: bytes
