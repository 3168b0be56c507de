"""What stands behind the doors of a control plane."""

from dataclasses import dataclass
from typing import Protocol

from navarch.api.auth import Authenticator
from navarch.api.heartbeats import HeartbeatDesk
from navarch.app.services import Services
from navarch.ports.agents import AgentApi, BootDesk
from navarch.ports.evidence import EvidenceDesk
from navarch.service.tokens import TokenUses


class Keeps(Protocol):
    """Something that is kept up to date."""

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What stands behind every door. All of it checks its caller."""

    auth: Authenticator
    services: Services
    agents: AgentApi
    desk: HeartbeatDesk
    evidence: EvidenceDesk
    boots: BootDesk
    uses: TokenUses
    keys: Keeps | None = None
    """What keeps the keys of an identity provider up to date."""
