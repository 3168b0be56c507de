"""Readings that come with every heartbeat: used, averaged, and forgotten."""

from dataclasses import dataclass
from datetime import datetime

import msgspec


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU is doing."""

    temperature_c: float = 0.0
    power_w: float = 0.0
    utilization_pct: float = 0.0
    memory_used_bytes: float = 0.0


class NodeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine is doing."""

    cpu_pct: float = 0.0
    memory_pct: float = 0.0
    gpus: tuple[GpuMetrics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings that could not be sent when they were taken."""

    at: datetime
    metrics: NodeMetrics
