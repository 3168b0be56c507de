"""Instances: machines as their provider describes them, as opposed to nodes, which are ours."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

import msgspec

from navarch.core.ids import InstanceId, ProviderName


class InstanceStatus(StrEnum):
    """The status that a provider reports for a machine."""

    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"

    @property
    def alive(self) -> bool:
        """Whether the machine is usable or may become so."""
        return self in ALIVE


ALIVE = frozenset({InstanceStatus.PENDING, InstanceStatus.RUNNING})


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as its provider reports it."""

    id: InstanceId
    provider: ProviderName
    status: InstanceStatus
    instance_type: str
    region: str = ""
    zone: str = ""
    public_address: str = ""
    private_address: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    launched_at: datetime | None = None
    ended_at: datetime | None = None
    """When the provider stopped charging for it, if the provider reports that."""
    price_per_hour: Decimal | None = None
