"""The dead-man lease: a machine that nobody looks after any more ends itself, if it is idle.

It is off unless asked for. Time is counted only while this agent runs and the control plane does
not answer, by a clock that cannot be set; what was counted is kept over restarts. Whatever looks
like work, and whatever cannot be looked at, keeps the machine.
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
"""How long nothing may have looked like work before the end: longer than a job takes to load."""
GPU_MEMORY_MAX = 1024**3
"""An idle GPU holds some hundred megabytes for its driver; a model that waits holds more."""
CPU_MAX_PCT = 25.0


class _Count(msgspec.Struct):
    alone_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How long a machine may be alone, and what ends it."""

    term: timedelta
    end: Callable[[], None]
    """Ends the machine: there is no way back from it."""


class DeadManSwitch:
    """Counts how long nobody has been there."""

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
        """What ends the waiting."""
        return self._signals.dead_man

    async def run(self) -> None:
        """Look every now and then, until stopped."""
        self._alone_s = self._saved_s = await self._load_count()
        before = self._clock.monotonic()
        while not self._signals.stopping:
            await self.signal.wait(INTERVAL_S)
            now = self._clock.monotonic()
            # A machine that was suspended has slept through the rest: that does not count.
            passed, before = min(now - before, 2 * INTERVAL_S), now
            if await self._tick(passed):
                log.warning(
                    "agent.dead_man", node=self._connection.node, alone_s=round(self._alone_s)
                )
                self._lease.end()
                # Where that did not work, it is tried again after another term.
                self._alone_s = self._idle_s = 0.0

    async def _tick(self, passed: float) -> bool:
        """Count the time that has passed; return whether it is time to end."""
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
        # Asked last: looking at the GPUs took a while, in which somebody may have answered.
        return due and self._idle_s >= IDLE_FOR.total_seconds() and not self._connection.up

    async def _busy_or_hung(self) -> bool:
        try:
            return await self._probe.call(self._is_busy, within_s=self._probe_timeout_s)
        except HungError:
            return True

    def _is_busy(self) -> bool:
        """Return whether anything looks like work, or cannot be looked at; blocks."""
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
            return 0.0  # Counting anew keeps the machine for longer, which is the safe side.

    async def _save_count(self, *, least_s: float) -> None:
        """Write the count down when it has moved enough."""
        if self._alone_s == self._saved_s or abs(self._alone_s - self._saved_s) < least_s:
            return
        data = msgspec.json.encode(_Count(alone_s=self._alone_s))
        try:
            await self._offload.run(lambda: self._disk.replace(FILE, data, sync=True))
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))
            return
        self._saved_s = self._alone_s
