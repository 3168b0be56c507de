"""Machines of a simulated cloud."""

from datetime import UTC, datetime
from decimal import Decimal

from navarch.core.ids import InstanceId, Token
from navarch.ports.provider import ProvisionRequest
from navarch.providers.simulated import Machine

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def a_machine(name: str, ended_at: datetime | None = None) -> Machine:
    return Machine(
        id=InstanceId(name),
        request=ProvisionRequest(
            token=Token(f"token-{name}"), name=name, instance_type="h100-8x", labels={}
        ),
        launched_at=NOW,
        boots_at=NOW,
        listed_at=NOW,
        price_per_hour=Decimal(98),
        ended_at=ended_at,
    )
