"""Hardware of machines: kinds in the catalogue, what an agent found, and readings of its load."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """The GPUs of one instance type in the catalogue."""

    provider: str
    instance_type: str
    gpu_model: str
    gpus: int
    gpu_memory_gib: float
    """The advertised memory of each GPU."""


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


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one GPU."""

    temperature_c: float = 0.0
    power_w: float = 0.0
    utilization_pct: float = 0.0
    memory_used_bytes: float = 0.0


class NodeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one machine."""

    cpu_pct: float = 0.0
    memory_pct: float = 0.0
    gpus: tuple[GpuMetrics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings that were buffered because they could not be sent."""

    at: datetime
    metrics: NodeMetrics
