"""Instances: machines as their provider describes them. A node is ours, an instance is theirs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from navarch.core.drafting import drafted
from navarch.core.ids import InstanceId, ProviderName


class InstanceStatus(StrEnum):
    """What a provider says about one of its machines."""

    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"

    @property
    def alive(self) -> bool:
        """Whether the machine is, or may still become, of use."""
        return self in ALIVE


ALIVE = frozenset({InstanceStatus.PENDING, InstanceStatus.RUNNING})


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine as its provider reports it."""

    id: InstanceId
    provider: ProviderName
    status: InstanceStatus
    instance_type: str
    region: str = ""
    zone: str = ""
    public_address: str = ""
    private_address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    launched_at: datetime | None = None
    ended_at: datetime | None = None
    """When the provider stopped charging for it, where the provider says so."""
    price_per_hour: Decimal | None = None
