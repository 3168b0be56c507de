"""What an agent found on its machine. Large, rarely read, and therefore kept apart."""

from collections.abc import Mapping

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its agent sees it."""

    index: int
    uuid: str
    name: str = ""
    pci_bus_id: str = ""
    memory_bytes: int = 0
    driver_version: str = ""
    cuda_version: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware and the name of one machine."""

    gpus: tuple[Gpu, ...] = ()
    hostname: str = ""
    internal_ip: str = ""
    external_ip: str = ""
    kernel_version: str = ""
    image: str = ""
    """What the machine was booted from, as whoever built it calls it."""
    agent_version: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
