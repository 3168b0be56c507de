"""Who an agent is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.core.ids import NodeId, Token
from navarch.core.machine import MachineKind
from navarch.core.offering import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What an agent was told about itself and its machine."""

    node: NodeId
    token: Token | None = None
    """Proof of the launch that made the machine."""
    boot_id: str = ""
    """Where it is empty, the operating system is asked."""
    place: Offering | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    external_ip: str = ""
    image: str = ""
    """What the machine was booted from."""
    gpus_expected: int | None = None
    kind: MachineKind | None = None
    """What the catalogue says of such machines."""
