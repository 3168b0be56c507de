"""What an agent found on its machine. Large, rarely read, and therefore kept apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.core.drafting import drafted


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as its agent sees it."""

    index: int
    uuid: str
    name: str = ""
    pci_bus_id: str = ""
    memory_bytes: int = 0
    driver_version: str = ""
    cuda_version: str = ""


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The hardware and the name of one machine."""

    gpus: tuple[Gpu, ...] = ()
    hostname: str = ""
    internal_ip: str = ""
    external_ip: str = ""
    kernel_version: str = ""
    image: str = ""
    """What the machine was booted from, as whoever built it calls it."""
    agent_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
