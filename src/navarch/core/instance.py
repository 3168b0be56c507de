"""Machines: as the provider lists them, and the hardware that an agent found in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum

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


class NoticeKind(StrEnum):
    """The announced event. The value is the name of the check that records it."""

    RECLAIM = "spot_notice"
    """The provider takes the machine back within minutes, in any case."""
    MAINTENANCE = "maintenance"
    """The machine will be interrupted or may be taken back: there is time to replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One announcement that is in force."""

    kind: NoticeKind
    reason: str
    """In the provider's terms, with the date where there is one."""


class InstanceHealth(StrEnum):
    """What a provider's checks show of a machine."""

    OK = "ok"
    """It runs and no check fails, which does not prove that its operating system works."""
    RESPONDING = "responding"
    """Its operating system responds."""
    INITIALIZING = "initializing"
    """It starts, or there is no result yet."""
    IMPAIRED = "impaired"
    """It runs and a check fails."""
    STOPPED = "stopped"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCheck:
    """The present result of a provider's checks of one machine."""

    health: InstanceHealth
    reason: str
    """A sentence in the provider's terms. It stays the same while nothing changes."""
    since: datetime | None = None
    """Since when, if the provider reports it."""


LABEL = "topology.navarch.dev/"
"""The prefix of the labels from which schedulers read the levels of a node."""

LEVELS = ("block", "rack", "switch")
"""From the widest to the narrowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The names of the parts of a network that contain a machine; empty for an unnamed part.

    Machines in one block communicate at full speed.
    """

    block: str = ""
    rack: str = ""
    switch: str = ""
    host: str = ""
    """The physical machine, if the provider names it. The next instance on it has the same."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of a node for its levels, widest first."""
        named = {level: getattr(self, level) for level in LEVELS}
        return {f"{LABEL}{level}": name for level, name in named.items() if name}


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
    serial: str = ""
    """The serial number of its board, which the manufacturer asks for; empty if unknown."""


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
    commands: tuple[str, ...] = ()
    """The optional kinds of command that its agent runs. Older agents list none."""
    dead_man_s: int = 0
    """How long, in seconds, the idle machine runs without its control plane; 0 for ever."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one GPU."""

    temperature_c: float = 0.0
    power_w: float = 0.0
    utilization_pct: float = 0.0
    memory_used_bytes: float = 0.0


class Reading(IntEnum):
    """The readings of a GPU, by their place where all readings of a fleet are kept in columns."""

    TEMPERATURE_C = 0
    POWER_W = 1
    UTILIZATION_PCT = 2
    MEMORY_USED_BYTES = 3


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
