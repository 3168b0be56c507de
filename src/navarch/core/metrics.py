"""Readings of a heartbeat: they are averaged and not stored."""

from dataclasses import dataclass
from datetime import datetime

import msgspec


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
