"""The dead man's switch: an idle machine that lost its control plane shuts itself down.

It is off by default. Time counts only while the agent runs and the control plane is unreachable,
on the monotonic clock; the count survives restarts. Anything that looks like work, or cannot be
read, keeps the machine running.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from navarch.agent.connection import ConnectionState
from navarch.agent.heartbeat import busy_pct
from navarch.agent.probe import HungError, Probe
from navarch.agent.signals import Signal, Signals
from navarch.agent.spool.disk import Disk, DiskError
from navarch.core.inventory import Gpu
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import CpuTimes, Host, HostError
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)

FILE = "dead-man"
INTERVAL_S = 30.0
IDLE_FOR = timedelta(minutes=15)
"""How long the machine must be idle before shutdown: longer than a job takes to load."""
GPU_MEMORY_MAX = 1024**3
"""The driver uses a few hundred megabytes of an idle GPU; a loaded model uses more."""
CPU_MAX_PCT = 25.0


class _Count(msgspec.Struct):
    alone_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How long a machine may run without a control plane, and how to shut it down."""

    term: timedelta
    end: Callable[[], None]
    """Shuts the machine down; irreversible."""


class DeadManSwitch:
    """Counts the time without a control plane and shuts down an idle machine after the term."""

    def __init__(
        self,
        clock: Clock,
        lease: Lease,
        gpus: GpuReader,
        host: Host,
        disk: Disk,
        *,
        connection: ConnectionState,
        probe: Probe,
        offload: Offload,
        signals: Signals,
        probe_timeout_s: float,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._gpus = gpus
        self._host = host
        self._disk = disk
        self._connection = connection
        self._probe = probe
        self._offload = offload
        self._signals = signals
        self._probe_timeout_s = probe_timeout_s
        self._alone_s = 0.0
        self._idle_s = 0.0
        self._saved_s = 0.0
        self._cpu: CpuTimes | None = None

    @property
    def signal(self) -> Signal:
        """The signal that wakes the loop."""
        return self._signals.dead_man

    async def run(self) -> None:
        """Update the count periodically, until stopped."""
        self._alone_s = self._saved_s = await self._load_count()
        before = self._clock.monotonic()
        while not self._signals.stopping:
            await self.signal.wait(INTERVAL_S)
            now = self._clock.monotonic()
            # Time during which the machine was suspended does not count.
            passed, before = min(now - before, 2 * INTERVAL_S), now
            if await self._tick(passed):
                log.warning(
                    "agent.dead_man", node=self._connection.node, alone_s=round(self._alone_s)
                )
                self._lease.end()
                # If the shutdown failed, try again after another term.
                self._alone_s = self._idle_s = 0.0

    async def _tick(self, passed: float) -> bool:
        """Add the time that passed; return whether to shut down."""
        if self._signals.stopping:
            return False
        if self._connection.up:
            self._alone_s = self._idle_s = 0.0
            await self._save_count(least_s=0.0)
            return False
        self._alone_s += passed
        self._idle_s = 0.0 if await self._busy_or_hung() else self._idle_s + passed
        await self._save_count(least_s=self._lease.term.total_seconds() / 20)
        due = self._alone_s >= self._lease.term.total_seconds()
        # Checked last: a heartbeat may have succeeded while the GPUs were read.
        return due and self._idle_s >= IDLE_FOR.total_seconds() and not self._connection.up

    async def _busy_or_hung(self) -> bool:
        try:
            return await self._probe.call(self._is_busy, within_s=self._probe_timeout_s)
        except HungError:
            return True

    def _is_busy(self) -> bool:
        """Return whether anything looks like work or cannot be read; blocks."""
        try:
            return any(self._gpu_busy(gpu) for gpu in self._gpus.list_gpus()) or self._cpu_busy()
        except (GpuError, HostError):
            return True

    def _gpu_busy(self, gpu: Gpu) -> bool:
        found = self._gpus.metrics(gpu)
        return found.utilization_pct > 0 or found.memory_used_bytes > GPU_MEMORY_MAX

    def _cpu_busy(self) -> bool:
        before, self._cpu = self._cpu, self._host.cpu_times()
        return before is None or busy_pct(before, self._cpu) > CPU_MAX_PCT

    async def _load_count(self) -> float:
        try:
            raw = await self._offload.run(lambda: self._disk.read(FILE))
            return msgspec.json.decode(raw, type=_Count).alone_s if raw else 0.0
        except (DiskError, msgspec.DecodeError):
            return 0.0  # Restarting the count keeps the machine longer, which is safe.

    async def _save_count(self, *, least_s: float) -> None:
        """Write the count to disk if it changed by `least_s`."""
        if self._alone_s == self._saved_s or abs(self._alone_s - self._saved_s) < least_s:
            return
        data = msgspec.json.encode(_Count(alone_s=self._alone_s))
        try:
            await self._offload.run(lambda: self._disk.replace(FILE, data, sync=True))
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))
            return
        self._saved_s = self._alone_s
