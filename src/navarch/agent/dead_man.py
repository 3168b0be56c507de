"""The dead man's switch: an idle machine that lost its control plane shuts itself down.

It is off by default. Time counts only while the agent runs and the control plane is unreachable,
on the monotonic clock; the count survives restarts. Anything that looks like work, or cannot be
read, keeps the machine running.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import msgspec
import structlog

from navarch.agent.context import AgentContext, HungError
from navarch.agent.heartbeat import busy_pct
from navarch.agent.spool.disk import DiskError
from navarch.core.dead_man import CPU_MAX_PCT, GPU_MEMORY_MAX, IDLE_FOR
from navarch.ports.gpu import GpuError
from navarch.ports.host import CpuTimes, HostError

log = structlog.get_logger(__name__)

FILE = "dead-man"
INTERVAL_S = 30.0


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

    def __init__(self, context: AgentContext, lease: Lease) -> None:
        self._context = context
        self._lease = lease
        self._alone_s = 0.0
        self._idle_s = 0.0
        self._saved_s = 0.0
        self._cpu: CpuTimes | None = None

    async def run(self) -> None:
        """Update the count periodically, until stopped."""
        clock, signals = self._context.clock, self._context.signals
        self._alone_s = self._saved_s = await self._context.offload.run(self._load_count)
        before = clock.monotonic()
        while not signals.stopping:
            await signals.dead_man.sleep(INTERVAL_S)
            now = clock.monotonic()
            # Time during which the machine was suspended does not count.
            passed, before = min(now - before, 2 * INTERVAL_S), now
            if await self._tick(passed):
                node = self._context.connection.node
                log.warning("agent.dead_man", node=node, alone_s=round(self._alone_s))
                self._lease.end()
                # If the shutdown failed, try again after another term.
                self._alone_s = self._idle_s = 0.0

    async def _tick(self, passed: float) -> bool:
        """Add the time that passed; return whether to shut down."""
        connection, term_s = self._context.connection, self._lease.term.total_seconds()
        if self._context.signals.stopping:
            return False
        if connection.up:
            self._alone_s = self._idle_s = 0.0
            await self._save_count(least_s=0.0)
            return False
        self._alone_s += passed
        try:
            within_s = self._context.timing.check_s
            busy = await self._context.probe.call(self._is_busy, within_s=within_s)
        except HungError:
            busy = True
        self._idle_s = 0.0 if busy else self._idle_s + passed
        await self._save_count(least_s=term_s / 20)
        due = self._alone_s >= term_s and self._idle_s >= IDLE_FOR.total_seconds()
        # Checked last: a heartbeat may have succeeded while the GPUs were read.
        return due and not connection.up

    def _is_busy(self) -> bool:
        """Return whether anything looks like work or cannot be read; blocks."""
        try:
            for gpu in self._context.gpus.list_gpus():
                found = self._context.gpus.metrics(gpu)
                if found.utilization_pct > 0 or found.memory_used_bytes > GPU_MEMORY_MAX:
                    return True
            before, self._cpu = self._cpu, self._context.host.cpu_times()
            return before is None or busy_pct(before, self._cpu) > CPU_MAX_PCT
        except (GpuError, HostError):
            return True

    def _load_count(self) -> float:
        try:
            raw = self._context.disk.read(FILE)
            return msgspec.json.decode(raw, type=_Count).alone_s if raw else 0.0
        except (DiskError, msgspec.DecodeError):
            return 0.0  # Restarting the count keeps the machine longer, which is safe.

    async def _save_count(self, *, least_s: float) -> None:
        """Write the count to disk if it changed by `least_s`."""
        if self._alone_s == self._saved_s or abs(self._alone_s - self._saved_s) < least_s:
            return
        data = msgspec.json.encode(_Count(alone_s=self._alone_s))
        try:
            await self._context.offload.run(
                partial(self._context.disk.replace, FILE, data, sync=True)
            )
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))
            return
        self._saved_s = self._alone_s
