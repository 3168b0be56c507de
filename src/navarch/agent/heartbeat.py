"""Registration and heartbeats, with the machine's metrics."""

import asyncio
import contextlib
from datetime import timedelta

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.connection import Backoff, ConnectionState
from navarch.agent.probe import HungError, Probe
from navarch.agent.settings import Identity, Timing
from navarch.agent.signals import Signals
from navarch.agent.spool import DiskAccess
from navarch.agent.spool.disk import DiskError
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import HealthReport
from navarch.core.inventory import Gpu, GpuMetrics, Inventory, NodeMetrics, Sample
from navarch.core.launch import Offering
from navarch.core.records import evolve
from navarch.core.version import VERSION
from navarch.ports.agents import Registration, Welcome
from navarch.ports.clock import Clock, Entropy
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import CpuTimes, Host, HostError, Memory
from navarch.ports.link import Link

log = structlog.get_logger(__name__)


class HeartbeatLoop:
    """Registers the machine, sends heartbeats, and stores the commands they return."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        link: Link,
        gpus: GpuReader,
        host: Host,
        *,
        identity: Identity,
        boot_id: str,
        connection: ConnectionState,
        disk_access: DiskAccess,
        check_runner: CheckRunner,
        probe: Probe,
        signals: Signals,
        timing: Timing,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._link = link
        self._gpus = gpus
        self._host = host
        self._identity = identity
        self._boot_id = boot_id
        self._connection = connection
        self._disk_access = disk_access
        self._check_runner = check_runner
        self._probe = probe
        self._signals = signals
        self._timing = timing
        self._metrics_reader = MetricsReader(host, gpus)
        self._interval_s = timing.heartbeat.total_seconds()
        self._sequence = 0
        self._first_report_deadline = clock.monotonic() + timing.first_report_s
        self._skip_report = False
        """Whether the last registration carried a report and failed."""

    async def run(self) -> None:
        """Send heartbeats until stopped, the first one immediately."""
        backoff = Backoff(self._entropy)
        while not self._signals.stopping:
            try:
                await self._send_heartbeat()
            except NavarchError as error:
                await self._on_failure(error)
                pause = backoff.next_s()
            else:
                backoff.reset()
                # Jitter spreads the heartbeats of agents that started together.
                pause = self._interval_s * self._entropy.uniform(0.95, 1.05)
            await self._signals.heartbeat.wait(pause)

    async def _send_heartbeat(self) -> None:
        if not self._connection.registered:
            await self._register()
        metrics = await self._metrics()
        self._sequence += 1
        node = self._connection.node
        try:
            commands = await self._link.heartbeat(node, metrics, sequence=self._sequence)
        except UnreachableError:
            await self._store_metrics(metrics)
            raise
        self._connection.mark_up()
        self._signals.uploads.set()
        if commands:
            now = self._clock.now()
            await self._disk_access.try_run(lambda spool: spool.journal.receive(commands, now))
        self._signals.commands.set()

    async def _on_failure(self, error: NavarchError) -> None:
        if isinstance(error, NotFoundError):
            self._connection.mark_unknown()
            self._signals.checks.set()
        else:
            self._connection.mark_lost(error)
            await self._check_runner.update_readiness(())

    async def _register(self) -> None:
        inventory = await self._inventory()
        # A report that breaks registration must not keep the machine unknown: retry without it.
        report = None if self._skip_report else await self._oldest_report()
        registration = Registration(
            node=self._identity.node,
            token=self._identity.token,
            boot_id=self._boot_id,
            place=self._place(inventory),
            inventory=inventory,
            report=report,
        )
        self._skip_report = report is not None
        welcome = await self._link.register(registration)
        self._skip_report = False
        if report is not None and welcome.status:
            # Must precede mark_registered(), which lets the uploader send this report again.
            now = self._clock.now()
            await self._disk_access.try_run(
                lambda spool: spool.delivered(report, welcome.status, now=now)
            )
        self._check_runner.registered_gpus = inventory.gpus
        self._connection.mark_registered(welcome.node)
        self._apply(welcome)

    async def _oldest_report(self) -> HealthReport | None:
        """Return the oldest undelivered health report.

        An agent that has just started waits briefly for its first report; a hung driver must not
        delay registration.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                max(self._first_report_deadline - self._clock.monotonic(), 0.0)
            ):
                await self._check_runner.report_stored.wait()
        now = self._clock.now()
        try:
            return await self._disk_access.run(lambda spool: spool.buffer.oldest_report(now))
        except DiskError as error:
            log.warning("agent.cannot_read", node=self._connection.node, error=str(error))
            return None

    def _place(self, inventory: Inventory) -> Offering | None:
        """Return the configured place with the expected number of GPUs, or the number found."""
        place, expected = self._identity.place, self._identity.gpus_expected
        if place is None:
            return None
        return evolve(place, gpus=len(inventory.gpus) if expected is None else expected)

    def _apply(self, welcome: Welcome) -> None:
        if welcome.heartbeat_interval > timedelta(0):
            self._interval_s = welcome.heartbeat_interval.total_seconds()
        if welcome.health_check_interval > timedelta(0):
            self._check_runner.set_interval(welcome.health_check_interval)

    async def _inventory(self) -> Inventory:
        try:
            hostname, kernel = self._host.hostname(), self._host.kernel_version()
            internal_ip = self._host.internal_ip()
        except HostError:
            hostname, kernel, internal_ip = self._identity.node, "", ""
        return Inventory(
            gpus=await self._list_gpus(),
            hostname=hostname,
            internal_ip=internal_ip,
            external_ip=self._identity.external_ip,
            kernel_version=kernel,
            image=self._identity.image,
            agent_version=VERSION,
            labels=self._identity.labels,
        )

    async def _list_gpus(self) -> tuple[Gpu, ...]:
        try:
            return tuple(
                await self._probe.call(self._gpus.list_gpus, within_s=self._timing.inventory_s)
            )
        except GpuError as error:
            # Report only what the driver lists: a broken driver must not look healthy.
            log.warning("agent.no_gpus", node=self._connection.node, error=str(error))
            return ()

    async def _metrics(self) -> NodeMetrics | None:
        try:
            return await self._probe.call(
                self._metrics_reader.read, within_s=self._timing.metrics_s
            )
        except HungError:
            return None

    async def _store_metrics(self, metrics: NodeMetrics | None) -> None:
        if metrics is not None:
            sample = Sample(at=self._clock.now(), metrics=metrics)
            await self._disk_access.try_run(lambda spool: spool.buffer.add_sample(sample))


class MetricsReader:
    """Reads CPU, memory and GPU metrics. Failed readings are zero; checks report the cause."""

    def __init__(self, host: Host, gpus: GpuReader) -> None:
        self._host = host
        self._gpus = gpus
        self._before: CpuTimes | None = None

    def read(self) -> NodeMetrics:
        """Return the current metrics; blocks."""
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
            return tuple(self._gpu_or_zero(gpu) for gpu in self._gpus.list_gpus())
        except GpuError:
            return ()

    def _gpu_or_zero(self, gpu: Gpu) -> GpuMetrics:
        try:
            return self._gpus.metrics(gpu)
        except GpuError:
            return GpuMetrics()  # Metrics are positional: omitting one GPU would shift the others.


def busy_pct(before: CpuTimes, after: CpuTimes) -> float:
    """Return the CPU utilisation between two readings."""
    total = after.total - before.total
    if total <= 0:
        return 0.0
    return min(100.0, max(0.0, 100.0 * (total - (after.idle - before.idle)) / total))


def used_pct(memory: Memory) -> float:
    """Return the share of memory that is not available."""
    if memory.total_bytes <= 0:
        return 0.0
    return 100.0 * (memory.total_bytes - memory.available_bytes) / memory.total_bytes
