"""The agent: concurrent loops around a spool on disk.

One loop registers and sends heartbeats, one runs checks and stores the results, one uploads
stored reports, one runs commands. A slow driver therefore delays no heartbeat, and a lost
connection stops no check.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.commands import CommandLoop
from navarch.agent.connection import ConnectionState, Signals
from navarch.agent.context import AgentContext, Probe
from navarch.agent.dead_man import DeadManSwitch, Lease
from navarch.agent.diagnostics import DiagnosticLoop
from navarch.agent.evidence import EvidenceCollector
from navarch.agent.heartbeat import HeartbeatLoop
from navarch.agent.notices import NoticeLoop
from navarch.agent.probes import ProbeLoop
from navarch.agent.remediation import Permissions, Remediation
from navarch.agent.settings import Identity, Timing
from navarch.agent.spool import Spool
from navarch.agent.spool.disk import Disk
from navarch.agent.uploader import Uploader
from navarch.core.errors import NavarchError
from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind
from navarch.ports.agents import Link
from navarch.ports.checks import Diagnostics, EventSource, HealthCheck
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.evidence import MachineFacts
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Effects, Host, HostError, NoticeWatch, Prober

log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Agent:
    """The agent of one machine; runs until stopped.

    Any number of agents can share a process, each with its own link and disk: an agent uses only
    what its constructor receives.
    """

    clock: Clock
    entropy: Entropy
    link: Link
    gpus: GpuReader
    host: Host
    disk: Disk
    _: KW_ONLY
    identity: Identity
    checks: Sequence[HealthCheck]
    offload: Offload
    """Runs disk calls, one at a time."""
    probe_offload: Offload
    """Runs driver calls, which may hang, so it should not be shared with the disk."""
    on_terminate: Callable[[], None] | None = None
    """Called after a TERMINATE command; without it the agent stops."""
    diagnostics: Diagnostics | None = None
    """Runs tests that load the GPUs, on machines that support them."""
    tests_offload: Offload | None = None
    """Runs these tests, which take minutes; `probe_offload` if None."""
    timing: Timing = field(default_factory=Timing)
    sources: Callable[[], Sequence[EventSource]] = tuple
    facts: MachineFacts | None = None
    notices: NoticeWatch | None = None
    """Watches the provider's maintenance and preemption notices."""
    effects: Effects | None = None
    """Changes the machine, as far as `permissions` allows."""
    permissions: Permissions = field(default_factory=Permissions)
    release_driver: Callable[[], None] = lambda: None
    lease: Lease | None = None
    """Shuts down an idle machine that has lost its control plane for the lease's term."""
    prober: Prober | None = None
    """Connects to other nodes when the control plane doubts that they work."""

    def __post_init__(self) -> None:
        self._probe = Probe(self.probe_offload)
        self._connection = ConnectionState(self.identity.node)
        self._signals = Signals()
        self._limit: asyncio.Timeout | None = None
        self._spool: Spool | None = None
        self._check_runner: CheckRunner | None = None

    @property
    def node(self) -> NodeId:
        """The node id that the control plane assigned."""
        return self._connection.node

    @property
    def connected(self) -> bool:
        """Whether the last call to the control plane succeeded."""
        return self._connection.up

    @property
    def not_ready(self) -> str | None:
        """Why the machine is marked as not ready, if it is."""
        return None if self._spool is None else self._spool.readiness.mark

    @property
    def hung(self) -> bool:
        """Whether a driver call that timed out still occupies the probe's thread."""
        return self._probe.hung

    async def run(self) -> None:
        """Run until stopped or cancelled; raise DiskError if the disk cannot be used."""
        context = await self._open_context()
        self._spool = context.spool
        self._check_runner = check_runner = self._build_check_runner(context)
        diagnostics = DiagnosticLoop(
            context=context,
            check_runner=check_runner,
            diagnostics=self.diagnostics,
            offload=self.tests_offload or self.probe_offload,
        )
        commands = self._build_command_loop(context, check_runner, diagnostics)
        uploader = Uploader(context)
        probe_loop = None if self.prober is None else ProbeLoop(context, self.prober)
        dead_man_s = 0 if self.lease is None else round(self.lease.term.total_seconds())
        heartbeats = HeartbeatLoop(context, check_runner, probe_loop, dead_man_s=dead_man_s)
        loops = {
            "checks": check_runner.run,
            "heartbeats": heartbeats.run,
            "uploads": uploader.run,
            "commands": commands.run,
        }
        if self.diagnostics is not None:
            loops["diagnostics"] = diagnostics.run
        if probe_loop is not None:
            loops["probes"] = probe_loop.run
        if self.notices is not None:
            loops["notices"] = NoticeLoop(context, self.notices).run
        if self.lease is not None:
            loops["dead man's switch"] = DeadManSwitch(context, self.lease).run
        log.info("agent.started", node=self.node, gpus=type(self.gpus).__name__)
        try:
            async with asyncio.timeout(None) as self._limit:
                self._limit_stop_time()
                async with asyncio.TaskGroup() as tasks:
                    for name, loop in loops.items():
                        tasks.create_task(loop(), name=f"{name} of {self.node}")
                try:
                    # A last attempt; what fails stays on disk.
                    await uploader.upload()
                    await commands.report_results()
                except NavarchError as error:
                    log.warning("agent.not_flushed", node=self.node, error=str(error))
        except TimeoutError:
            log.warning("agent.stopped_in_a_hurry", node=self.node)
        finally:
            self._limit = None
            await self.link.close()
        log.info("agent.stopped", node=self.node)

    def stop(self) -> None:
        """Stop after finishing calls in flight and a last upload."""
        self._signals.stop()
        self._limit_stop_time()

    def run_all_checks(self) -> None:
        """Schedule every check to run immediately."""
        if self._check_runner is not None:
            self._check_runner.schedule_all()

    def run_check(self, check: str) -> None:
        """Schedule one check to run immediately."""
        if self._check_runner is not None:
            self._check_runner.schedule_now(check)

    def _limit_stop_time(self) -> None:
        if self._signals.stopping and self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self.timing.stop_s)

    def _build_check_runner(self, context: AgentContext) -> CheckRunner:
        evidence = None
        if self.facts is not None:
            evidence = EvidenceCollector(
                self.clock, self.entropy, self.gpus, self.facts, boot_id=context.boot_id
            )
        return CheckRunner(
            context,
            self.checks,
            sources=self.sources,
            diagnostics=self.diagnostics,
            evidence=evidence,
        )

    def _build_command_loop(
        self, context: AgentContext, check_runner: CheckRunner, diagnostics: DiagnosticLoop
    ) -> CommandLoop:
        remediation = Remediation(
            context=context,
            check_runner=check_runner,
            effects=self.effects,
            permissions=self.permissions,
            release_driver=self.release_driver,
        )
        return CommandLoop(
            context,
            check_runner,
            on_terminate=self.on_terminate or self.stop,
            handlers={
                CommandKind.RUN_DIAGNOSTIC: diagnostics.handle_command,
                CommandKind.RESTART_APP: remediation.restart_app,
                CommandKind.RESET_GPU: remediation.reset,
                CommandKind.REBOOT: remediation.reboot,
            },
        )

    async def _open_context(self) -> AgentContext:
        boot_id = self.identity.boot_id
        if not boot_id:
            try:
                boot_id = self.host.boot_id()
            except HostError as error:
                log.warning("agent.no_boot_id", error=str(error))
        spool = await self.offload.run(
            partial(
                Spool,
                self.disk,
                self.offload,
                now=self.clock.now(),
                boot_id=boot_id,
                new_stream=self.entropy.new_id("stream"),
            )
        )
        return AgentContext(
            clock=self.clock,
            entropy=self.entropy,
            link=self.link,
            gpus=self.gpus,
            host=self.host,
            disk=self.disk,
            offload=self.offload,
            probe=self._probe,
            identity=self.identity,
            timing=self.timing,
            boot_id=boot_id,
            connection=self._connection,
            signals=self._signals,
            spool=spool,
        )
