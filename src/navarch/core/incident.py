"""Incidents: one story out of everything that was seen of one fault."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from navarch.core.ids import IncidentId, NodeId, PoolName

SILENCE = timedelta(seconds=180)
"""A burst is over when nothing has been seen of it for this long."""


class IncidentKind(StrEnum):
    """Whose fault it is, as far as can be told."""

    APPLICATION = "application"
    HARDWARE = "hardware"
    FABRIC = "fabric"
    NETWORK = "network"
    HOST = "host"


class IncidentState(StrEnum):
    """How far the story has come."""

    OPEN = "open"
    RECOVERING = "recovering"
    """Something is being done about it."""
    HELD = "held"
    """Something should be done about it, and is held back."""
    RESOLVED = "resolved"


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was seen, however often."""

    check: str
    reason: str
    node: NodeId
    first_at: datetime
    last_at: datetime
    code: str = ""
    gpu: str = ""
    action: str = ""
    rule: str = ""
    """The rule of the policy that judged it."""
    count: int = 1


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A fault with its cause and its symptoms, from the first sign to the end."""

    id: IncidentId
    kind: IncidentKind
    node: NodeId
    """Where the cause was seen."""
    opened_at: datetime
    last_at: datetime
    """When something was last seen of it."""
    title: str
    check: str
    """The cause, by the name of the check that found it."""
    code: str = ""
    """The cause's number, where it has one."""
    action: str = ""
    """The most that any of its parts asks for."""
    state: IncidentState = IncidentState.OPEN
    nodes: tuple[NodeId, ...] = ()
    pool: PoolName | None = None
    domain: str = ""
    """The NVLink domain of a fault in the fabric."""
    gpus: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    """Where in the machine those sit, by PCI address: a slot outlives the GPU in it."""
    host: str = ""
    """The physical machine, where somebody names it: it outlives the node."""
    boot_id: str = ""
    pid: str = ""
    process: str = ""
    symptoms: tuple[Symptom, ...] = ()
    """Everything that was seen, the cause among it, in the order in which it was first seen."""
    closed_at: datetime | None = None
    note: str = ""
    provider: str = ""
    instance_type: str = ""
    """The kind of machine it happened on, for those who ask long after the machine is gone."""
    recovery: str = ""
    """The recovery that was begun because of it."""

    @property
    def is_open(self) -> bool:
        """Whether it can still grow."""
        return self.closed_at is None

    @property
    def place(self) -> str:
        """What two incidents cannot be about at the same time without being one."""
        if self.kind is IncidentKind.FABRIC:
            return f"fabric/{self.domain}"
        return f"node/{self.node}"
