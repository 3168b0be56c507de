"""The agent: concurrent loops around a spool on disk.

One loop registers and sends heartbeats, one runs checks and stores the results, one uploads
stored reports, one runs commands. A slow driver therefore delays no heartbeat, and a lost
connection stops no check.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.commands import CommandLoop, Handler
from navarch.agent.connection import ConnectionState
from navarch.agent.dead_man import DeadManSwitch, Lease
from navarch.agent.diagnostics import DiagnosticLoop
from navarch.agent.evidence import EvidenceCollector
from navarch.agent.heartbeat import HeartbeatLoop
from navarch.agent.notices import NoticeLoop
from navarch.agent.probe import Probe
from navarch.agent.remediation import Permissions, Remediation
from navarch.agent.settings import Identity, Timing
from navarch.agent.signals import Signals
from navarch.agent.spool import DiskAccess, Spool
from navarch.agent.spool.disk import Disk
from navarch.agent.spool.outbox import AGE_MAX, BYTES_MAX
from navarch.agent.uploader import Uploader
from navarch.core.command import CommandKind
from navarch.core.errors import NavarchError
from navarch.core.ids import NodeId
from navarch.ports.checks import EventSource, HealthCheck
from navarch.ports.clock import Clock, Entropy
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.effects import Effects
from navarch.ports.evidence import MachineFacts
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Host, HostError
from navarch.ports.link import Link
from navarch.ports.metadata import NoticeWatch
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loops:
    disk_access: DiskAccess
    check_runner: CheckRunner
    heartbeat: HeartbeatLoop
    uploader: Uploader
    commands: CommandLoop
    diagnostic_loop: DiagnosticLoop
    notices: NoticeLoop | None
    dead_man: DeadManSwitch | None


class Agent:
    """The agent of one machine; runs until stopped.

    Any number of agents can share a process, each with its own link and disk: an agent uses only
    what its constructor receives.

    `offload` runs disk calls, one at a time. `probe_offload` runs driver calls, which may hang,
    so it should not be shared with the disk. `on_terminate` is called after a TERMINATE command;
    without it the agent stops. `diagnostics` runs tests that load the GPUs, on machines that
    support them; they take minutes and run on `tests_offload`. `notices` watches the provider's
    maintenance and preemption notices. `effects` changes the machine, as far as `permissions`
    allows. `lease` shuts down an idle machine that has lost its control plane for the lease's term.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        link: Link,
        gpus: GpuReader,
        host: Host,
        disk: Disk,
        *,
        identity: Identity,
        checks: Sequence[HealthCheck],
        offload: Offload,
        probe_offload: Offload,
        on_terminate: Callable[[], None] | None = None,
        handlers: Mapping[CommandKind, Handler] | None = None,
        diagnostics: Diagnostics | None = None,
        tests_offload: Offload | None = None,
        timing: Timing | None = None,
        sources: Callable[[], Sequence[EventSource]] = tuple,
        facts: MachineFacts | None = None,
        notices: NoticeWatch | None = None,
        effects: Effects | None = None,
        permissions: Permissions | None = None,
        release_driver: Callable[[], None] = lambda: None,
        lease: Lease | None = None,
        buffer_bytes_max: int = BYTES_MAX,
        buffer_age_max: timedelta = AGE_MAX,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._link = link
        self._gpus = gpus
        self._host = host
        self._disk = disk
        self._identity = identity
        self._checks = checks
        self._offload = offload
        self._probe = Probe(probe_offload)
        self._on_terminate = on_terminate or self.stop
        self._handlers = handlers or {}
        self._diagnostics = diagnostics
        self._tests_offload = tests_offload or probe_offload
        self._timing = timing or Timing()
        self._sources = sources
        self._facts = facts
        self._notices = notices
        self._effects = effects
        self._permissions = permissions or Permissions()
        self._release_driver = release_driver
        self._lease = lease
        self._buffer_bytes_max = buffer_bytes_max
        self._buffer_age_max = buffer_age_max
        self._connection = ConnectionState(identity.node)
        self._signals = Signals()
        self._limit: asyncio.Timeout | None = None
        self._loops: _Loops | None = None

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
        return None if self._loops is None else self._loops.disk_access.not_ready

    @property
    def hung(self) -> bool:
        """Whether a driver call that timed out still occupies the probe's thread."""
        return self._probe.hung

    async def run(self) -> None:
        """Run until stopped or cancelled; raise DiskError if the disk cannot be used."""
        self._loops = loops = await self._build()
        log.info("agent.started", node=self.node, gpus=type(self._gpus).__name__)
        try:
            async with asyncio.timeout(None) as self._limit:
                self._limit_stop_time()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(loops.check_runner.run(), name=f"checks of {self.node}")
                    tasks.create_task(loops.heartbeat.run(), name=f"heartbeats of {self.node}")
                    tasks.create_task(loops.uploader.run(), name=f"uploads of {self.node}")
                    tasks.create_task(loops.commands.run(), name=f"commands of {self.node}")
                    tasks.create_task(
                        loops.diagnostic_loop.run(), name=f"diagnostics of {self.node}"
                    )
                    if loops.notices is not None:
                        tasks.create_task(loops.notices.run(), name=f"notices of {self.node}")
                    if loops.dead_man is not None:
                        tasks.create_task(
                            loops.dead_man.run(), name=f"dead man's switch of {self.node}"
                        )
                await self._flush(loops)
        except TimeoutError:
            log.warning("agent.stopped_in_a_hurry", node=self.node)
        finally:
            self._limit = None
            await self._link.close()
        log.info("agent.stopped", node=self.node)

    def stop(self) -> None:
        """Stop after finishing calls in flight and a last upload."""
        self._signals.stop()
        self._limit_stop_time()

    def run_all_checks(self) -> None:
        """Schedule every check to run immediately."""
        if self._loops is not None:
            self._loops.check_runner.schedule_all()

    def run_check(self, check: str) -> None:
        """Schedule one check to run immediately."""
        if self._loops is not None:
            self._loops.check_runner.schedule_now(check)

    def _limit_stop_time(self) -> None:
        if self._signals.stopping and self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._timing.stop_s)

    async def _flush(self, loops: _Loops) -> None:
        """Try once to upload stored reports and results; what fails stays on disk."""
        try:
            await loops.uploader.upload()
            await loops.commands.report_results()
        except NavarchError as error:
            log.warning("agent.not_flushed", node=self.node, error=str(error))

    async def _build(self) -> _Loops:
        boot_id = self._identity.boot_id or _boot_id(self._host)
        spool = await self._offload.run(lambda: self._open_spool(boot_id))
        disk_access = DiskAccess(spool, self._offload)
        check_runner = self._check_runner(boot_id, disk_access)
        diagnostic_loop = self._diagnostic_loop(check_runner)
        remediation = self._remediation(boot_id, disk_access, check_runner)
        commands = CommandLoop(
            self._entropy,
            self._link,
            connection=self._connection,
            disk_access=disk_access,
            signals=self._signals,
            check_runner=check_runner,
            on_terminate=self._on_terminate,
            handlers={
                CommandKind.RUN_DIAGNOSTIC: diagnostic_loop.handle_command,
                **remediation.handlers(),
                **self._handlers,
            },
        )
        uploader = Uploader(
            self._clock,
            self._entropy,
            self._link,
            connection=self._connection,
            disk_access=disk_access,
            signals=self._signals,
        )
        return _Loops(
            disk_access=disk_access,
            check_runner=check_runner,
            heartbeat=self._heartbeat_loop(boot_id, disk_access, check_runner),
            uploader=uploader,
            commands=commands,
            diagnostic_loop=diagnostic_loop,
            notices=self._notice_loop(check_runner),
            dead_man=self._dead_man(),
        )

    def _check_runner(self, boot_id: str, disk_access: DiskAccess) -> CheckRunner:
        return CheckRunner(
            self._clock,
            self._gpus,
            self._host,
            self._checks,
            gpus_expected=self._identity.gpus_expected,
            sources=self._sources,
            kind=self._identity.kind,
            diagnostics=self._diagnostics,
            connection=self._connection,
            disk_access=disk_access,
            probe=self._probe,
            signals=self._signals,
            timing=self._timing,
            evidence=self._evidence_collector(boot_id),
        )

    def _heartbeat_loop(
        self, boot_id: str, disk_access: DiskAccess, check_runner: CheckRunner
    ) -> HeartbeatLoop:
        return HeartbeatLoop(
            self._clock,
            self._entropy,
            self._link,
            self._gpus,
            self._host,
            identity=self._identity,
            boot_id=boot_id,
            connection=self._connection,
            disk_access=disk_access,
            check_runner=check_runner,
            probe=self._probe,
            signals=self._signals,
            timing=self._timing,
        )

    def _diagnostic_loop(self, check_runner: CheckRunner) -> DiagnosticLoop:
        return DiagnosticLoop(
            self._clock,
            self._entropy,
            self._gpus,
            self._host,
            self._disk,
            diagnostics=self._diagnostics,
            check_runner=check_runner,
            connection=self._connection,
            signals=self._signals,
            disk_offload=self._offload,
            offload=self._tests_offload,
        )

    def _remediation(
        self, boot_id: str, disk_access: DiskAccess, check_runner: CheckRunner
    ) -> Remediation:
        return Remediation(
            self._clock,
            self._disk,
            effects=self._effects,
            permissions=self._permissions,
            boot_id=boot_id,
            check_runner=check_runner,
            disk_access=disk_access,
            probe=self._probe,
            disk_offload=self._offload,
            release_driver=self._release_driver,
        )

    def _dead_man(self) -> DeadManSwitch | None:
        if self._lease is None:
            return None
        return DeadManSwitch(
            self._clock,
            self._lease,
            self._gpus,
            self._host,
            self._disk,
            connection=self._connection,
            probe=self._probe,
            offload=self._offload,
            signals=self._signals,
            probe_timeout_s=self._timing.check_s,
        )

    def _notice_loop(self, check_runner: CheckRunner) -> NoticeLoop | None:
        if self._notices is None:
            return None
        return NoticeLoop(
            self._notices,
            check_runner=check_runner,
            connection=self._connection,
            signals=self._signals,
        )

    def _evidence_collector(self, boot_id: str) -> EvidenceCollector | None:
        if self._facts is None:
            return None
        return EvidenceCollector(
            self._clock,
            self._gpus,
            self._facts,
            boot_id=boot_id,
            new_id=lambda: self._entropy.new_id("evidence"),
        )

    def _open_spool(self, boot_id: str) -> Spool:
        return Spool(
            self._disk,
            now=self._clock.now(),
            boot_id=boot_id,
            new_stream=self._entropy.new_id("stream"),
            bytes_max=self._buffer_bytes_max,
            age_max=self._buffer_age_max,
        )


def _boot_id(host: Host) -> str:
    try:
        return host.boot_id()
    except HostError as error:
        log.warning("agent.no_boot_id", error=str(error))
        return ""
