"""Registration and heartbeats, with the machine's metrics."""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.connection import Backoff
from navarch.agent.context import AgentContext, HungError
from navarch.agent.probes import ProbeLoop
from navarch.agent.spool.disk import DiskError
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import HealthReport
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics, Sample
from navarch.core.records import evolve
from navarch.core.recovery import CommandKind
from navarch.core.version import VERSION
from navarch.ports.agents import Registration
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import CpuTimes, Host, HostError

log = structlog.get_logger(__name__)


class HeartbeatLoop:
    """Registers the machine, sends heartbeats, and stores the commands they return."""

    def __init__(
        self,
        context: AgentContext,
        check_runner: CheckRunner,
        probe_loop: ProbeLoop | None = None,
        *,
        dead_man_s: int = 0,
    ) -> None:
        self._context = context
        self._check_runner = check_runner
        self._probe_loop = probe_loop
        self._dead_man_s = dead_man_s
        self._metrics_reader = MetricsReader(context.host, context.gpus)
        self._interval_s = context.timing.heartbeat.total_seconds()
        self._sequence = 0
        self._first_report_deadline = context.clock.monotonic() + context.timing.first_report_s
        self._skip_report = False
        """Whether the last registration carried a report and failed."""

    async def run(self) -> None:
        """Send heartbeats until stopped, the first one immediately."""
        entropy, signals = self._context.entropy, self._context.signals
        backoff = Backoff(entropy)
        while not signals.stopping:
            try:
                await self._send_heartbeat()
            except NotFoundError:
                self._context.connection.mark_unknown()
                signals.checks.set()
                pause = backoff.next_s()
            except NavarchError as error:
                self._context.connection.mark_lost(error)
                await self._check_runner.update_readiness(())
                pause = backoff.next_s()
            else:
                backoff.failures = 0
                # Jitter spreads the heartbeats of agents that started together.
                pause = self._interval_s * entropy.uniform(0.95, 1.05)
            await signals.heartbeat.sleep(pause)

    async def _send_heartbeat(self) -> None:
        context, spool = self._context, self._context.spool
        if not context.connection.registered:
            await self._register()
        metrics: NodeMetrics | None = None
        with contextlib.suppress(HungError):
            metrics = await context.probe.call(
                self._metrics_reader.read, within_s=context.timing.metrics_s
            )
        self._sequence += 1
        node = context.connection.node
        try:
            commands = await context.link.heartbeat(node, metrics, sequence=self._sequence)
        except UnreachableError:
            if metrics is not None:
                sample = Sample(at=context.clock.now(), metrics=metrics)
                await spool.try_run(spool.buffer.add_sample, sample)
            raise
        context.connection.mark_up()
        context.signals.uploads.set()
        stored = [each for each in commands if each.kind is not CommandKind.PROBE]
        if stored:
            await spool.try_run(spool.journal.receive, stored, context.clock.now())
        if self._probe_loop is not None and len(stored) < len(commands):
            probes = [each for each in commands if each.kind is CommandKind.PROBE]
            self._probe_loop.receive(probes)
        context.signals.commands.set()

    async def _register(self) -> None:
        context, identity, spool = self._context, self._context.identity, self._context.spool
        inventory = await self._inventory()
        report: HealthReport | None = None
        # A report that breaks registration must not keep the machine unknown: retry without it.
        if not self._skip_report:
            # An agent that has just started waits briefly for its first report; a hung driver must
            # not delay registration.
            patience_s = max(self._first_report_deadline - context.clock.monotonic(), 0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._check_runner.report_stored.wait()
            try:
                report = await spool.run(spool.buffer.oldest_report, context.clock.now())
            except DiskError as error:
                log.warning("agent.cannot_read", node=context.connection.node, error=str(error))
        place = identity.place
        if place is not None:
            found, expected = len(inventory.gpus), identity.gpus_expected
            place = evolve(place, gpus=found if expected is None else expected)
        registration = Registration(
            node=identity.node,
            token=identity.token,
            boot_id=context.boot_id,
            place=place,
            inventory=inventory,
            report=report,
        )
        self._skip_report = report is not None
        welcome = await context.link.register(registration)
        self._skip_report = False
        if report is not None and welcome.status:
            # Must precede mark_registered(), which lets the uploader send this report again.
            await spool.try_run(spool.delivered, report, welcome.status, now=context.clock.now())
        self._check_runner.registered_gpus = inventory.gpus
        context.connection.mark_registered(welcome.node)
        if welcome.heartbeat_interval > timedelta(0):
            self._interval_s = welcome.heartbeat_interval.total_seconds()
        if welcome.health_check_interval > timedelta(0):
            self._check_runner.set_interval(welcome.health_check_interval)

    async def _inventory(self) -> Inventory:
        context, host, identity = self._context, self._context.host, self._context.identity
        try:
            hostname, kernel = host.hostname(), host.kernel_version()
            internal_ip = host.internal_ip()
        except HostError:
            hostname, kernel, internal_ip = identity.node, "", ""
        gpus: tuple[Gpu, ...] = ()
        try:
            within_s = context.timing.inventory_s
            gpus = tuple(await context.probe.call(context.gpus.list_gpus, within_s=within_s))
        except GpuError as error:
            # Report only what the driver lists: a broken driver must not look healthy.
            log.warning("agent.no_gpus", node=context.connection.node, error=str(error))
        return Inventory(
            gpus=gpus,
            hostname=hostname,
            internal_ip=internal_ip,
            external_ip=identity.external_ip,
            kernel_version=kernel,
            image=identity.image,
            agent_version=VERSION,
            commands=(CommandKind.PROBE,) if self._probe_loop is not None else (),
            dead_man_s=self._dead_man_s,
            labels=identity.labels,
        )


@dataclass(slots=True)
class MetricsReader:
    """Reads CPU, memory and GPU metrics. Failed readings are zero; checks report the cause."""

    host: Host
    gpus: GpuReader
    before: CpuTimes | None = None

    def read(self) -> NodeMetrics:
        """Return the current metrics; blocks."""
        cpu_pct = memory_pct = 0.0
        with contextlib.suppress(HostError):
            before, self.before = self.before, self.host.cpu_times()
            cpu_pct = 0.0 if before is None else busy_pct(before, self.before)
        with contextlib.suppress(HostError):
            memory = self.host.memory()
            if memory.total_bytes > 0:
                used = memory.total_bytes - memory.available_bytes
                memory_pct = 100.0 * used / memory.total_bytes
        gpus: list[GpuMetrics] = []
        with contextlib.suppress(GpuError):
            for gpu in self.gpus.list_gpus():
                try:
                    gpus.append(self.gpus.metrics(gpu))
                except GpuError:
                    # Metrics are positional: omitting one GPU would shift the others.
                    gpus.append(GpuMetrics())
        return NodeMetrics(cpu_pct=cpu_pct, memory_pct=memory_pct, gpus=tuple(gpus))


def busy_pct(before: CpuTimes, after: CpuTimes) -> float:
    """Return the CPU utilisation between two readings."""
    total = after.total - before.total
    if total <= 0:
        return 0.0
    return min(100.0, max(0.0, 100.0 * (total - (after.idle - before.idle)) / total))
