"""The hardware that an agent found. It is large and rarely read, so it is stored separately."""

from collections.abc import Mapping

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its agent reports it."""

    index: int
    uuid: str
    name: str = ""
    pci_bus_id: str = ""
    memory_bytes: int = 0
    driver_version: str = ""
    cuda_version: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware, addresses and versions of one machine."""

    gpus: tuple[Gpu, ...] = ()
    hostname: str = ""
    internal_ip: str = ""
    external_ip: str = ""
    kernel_version: str = ""
    image: str = ""
    """The name of the image from which the machine booted."""
    agent_version: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
