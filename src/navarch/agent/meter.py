"""Readings for the heartbeat."""

from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics, NodeMetrics
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import CpuTimes, Host, HostError, Memory


class Meter:
    """Takes a machine's readings. What cannot be read reads zero; the checks say why."""

    def __init__(self, host: Host, gpus: GpuReader) -> None:
        self._host = host
        self._gpus = gpus
        self._before: CpuTimes | None = None

    def read(self) -> NodeMetrics:
        """Return what the machine does now; blocks."""
        return NodeMetrics(
            cpu_pct=self._cpu_pct(), memory_pct=self._memory_pct(), gpus=self._gpu_metrics()
        )

    def _cpu_pct(self) -> float:
        try:
            now = self._host.cpu_times()
        except HostError:
            return 0.0
        before, self._before = self._before, now
        return 0.0 if before is None else busy_pct(before, now)

    def _memory_pct(self) -> float:
        try:
            return used_pct(self._host.memory())
        except HostError:
            return 0.0

    def _gpu_metrics(self) -> tuple[GpuMetrics, ...]:
        try:
            return tuple(self._one(gpu) for gpu in self._gpus.list_gpus())
        except GpuError:
            return ()

    def _one(self, gpu: Gpu) -> GpuMetrics:
        try:
            return self._gpus.metrics(gpu)
        except GpuError:
            return GpuMetrics()  # Leaving it out would give its place to its neighbour.


def busy_pct(before: CpuTimes, after: CpuTimes) -> float:
    """Return the share of processor time that was used between two readings."""
    total = after.total - before.total
    if total <= 0:
        return 0.0
    return min(100.0, max(0.0, 100.0 * (total - (after.idle - before.idle)) / total))


def used_pct(memory: Memory) -> float:
    """Return the share of memory that cannot be had."""
    if memory.total_bytes <= 0:
        return 0.0
    return 100.0 * (memory.total_bytes - memory.available_bytes) / memory.total_bytes
