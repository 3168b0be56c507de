"""Incidents: faults with everything that was observed of them, and bundles of evidence."""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from navarch.core.errors import InvalidError
from navarch.core.ids import IncidentId, NodeId, PoolName

SILENCE = timedelta(seconds=180)
"""A burst is over when no symptom was observed for this long."""


class IncidentKind(StrEnum):
    """The likely origin of a fault."""

    APPLICATION = "application"
    HARDWARE = "hardware"
    FABRIC = "fabric"
    NETWORK = "network"
    HOST = "host"


class IncidentState(StrEnum):
    """The state of an incident."""

    OPEN = "open"
    RECOVERING = "recovering"
    """A recovery is under way."""
    HELD = "held"
    """A remedy is decided and deferred."""
    RESOLVED = "resolved"


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One observation, with the number of times it was made."""

    check: str
    reason: str
    node: NodeId
    first_at: datetime
    last_at: datetime
    code: str = ""
    gpu: str = ""
    action: str = ""
    rule: str = ""
    """The rule of the policy that matched it."""
    count: int = 1


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A fault with its cause and its symptoms, from the first symptom to the end."""

    id: IncidentId
    kind: IncidentKind
    node: NodeId
    """The node on which the cause was observed."""
    opened_at: datetime
    last_at: datetime
    """When the last symptom was observed."""
    title: str
    check: str
    """The name of the check that found the cause."""
    code: str = ""
    """The code of the cause, if it has one."""
    action: str = ""
    """The strongest action that any symptom requires."""
    state: IncidentState = IncidentState.OPEN
    nodes: tuple[NodeId, ...] = ()
    pool: PoolName | None = None
    domain: str = ""
    """The NVLink domain of a fault in the fabric."""
    gpus: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    """The PCI addresses of those GPUs: a slot outlives the GPU in it."""
    host: str = ""
    """The physical machine, if agent or provider name it: it outlives the node."""
    boot_id: str = ""
    pid: str = ""
    process: str = ""
    symptoms: tuple[Symptom, ...] = ()
    """All observations including the cause, in the order in which each was first made."""
    closed_at: datetime | None = None
    note: str = ""
    provider: str = ""
    instance_type: str = ""
    """The kind of machine, kept here because the incident outlives the node."""
    recovery: str = ""
    """The recovery that was started for it."""

    @property
    def is_open(self) -> bool:
        """Whether symptoms can still be added."""
        return self.closed_at is None

    @property
    def place(self) -> str:
        """The node or fabric of the incident: each has at most one open incident."""
        if self.kind is IncidentKind.FABRIC:
            return f"fabric/{self.domain}"
        return f"node/{self.node}"


CONTENT_BYTES_MAX = 700_000
"""The limit of a compressed bundle: it is sent in one request of at most a megabyte."""

INFLATED_BYTES_MAX = 4_000_000
"""The limit of an inflated bundle. Agents leave out log lines above two megabytes."""


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


def inflated(evidence: Evidence) -> bytes:
    """Return the JSON of a bundle; raise InvalidError if it is too large or damaged.

    The sender chooses what a bundle inflates to, a thousand times its size at worst.
    """
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(evidence.content, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise InvalidError(f"evidence {evidence.note.id} is not gzip: {error}") from error
    if not inflater.eof:
        raise InvalidError(
            f"evidence {evidence.note.id} is cut off, or larger than {INFLATED_BYTES_MAX} bytes"
        )
    return plain
