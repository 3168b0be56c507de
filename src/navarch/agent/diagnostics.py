"""Tests that use the GPUs: when somebody asks, and weekly while the machine is idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog

from navarch.agent.check_runner import CheckRunner, GpuSnapshot
from navarch.agent.connection import ConnectionState
from navarch.agent.scan import run_check_safely
from navarch.agent.signals import Signals
from navarch.agent.spool.disk import Disk
from navarch.core.command import Command
from navarch.core.health import TESTING, CheckResult, Health
from navarch.health.checks.active import active_checks, choose_active
from navarch.health.trial import WEEKLY
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.clock import Clock, Entropy
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import Host
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)

DUE_FILE = "diagnosed.txt"
TESTING_FILE = "testing"
REPORT_TRIES = 30
SETTLE_S = 10.0
"""How long the system that hands out work is given to hear that there is none for this node."""
RETRY_AFTER = timedelta(minutes=10)
"""How long a machine that was busy is left alone."""
TESTS = "tests"
"""The parameter of the command that names the tests, separated by commas."""


PEERS = "peers"
"""The parameter that names other nodes for tests that span nodes: addresses with their GPUs."""


class DiagnosticLoop:
    """Tests the GPUs, one round at a time, on a thread of its own.

    No work may start on the node meanwhile: the control plane is told first, and given time to
    tell whoever hands out work. GPUs that are in use all the same are left alone; the tests look
    for that themselves. Passive checks and heartbeats go on.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        gpus: GpuReader,
        host: Host,
        disk: Disk,
        *,
        diagnostics: Diagnostics | None,
        check_runner: CheckRunner,
        connection: ConnectionState,
        signals: Signals,
        disk_offload: Offload,
        offload: Offload,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._gpus = gpus
        self._host = host
        self._disk = disk
        self._diagnostics = diagnostics
        self._check_runner = check_runner
        self._connection = connection
        self._signals = signals
        self._disk_offload = disk_offload
        self._offload = offload
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Test weekly, until stopped. A machine that has no way to be tested is left alone."""
        if self._diagnostics is None:
            return
        await self._recover()
        due = await self._disk_offload.run(self._load_due)
        while not self._signals.stopping:
            wait = due - self._clock.now()
            if wait > timedelta(0):
                await self._signals.diagnostics.wait(wait.total_seconds())
                continue
            if await self._offload.run(self._is_idle) and await self._test_if_idle():
                due = await self._reschedule(WEEKLY)
            else:
                due = self._clock.now() + RETRY_AFTER

    async def _test_if_idle(self) -> bool:
        """Make all tests, unless work came before it could be kept away; return whether."""
        checks = active_checks()
        async with self._exclusive(checks) as reported:
            if not reported or not await self._offload.run(self._is_idle):
                return False
            await self._run_tests(checks)
        return True

    async def handle_command(self, command: Command) -> str:
        """Carry out a request for tests, or for all checks where it names none."""
        names = command.parameters.get(TESTS, "")
        if not names:
            return _render(await self._check_runner.run_all())
        peers = filter(None, command.parameters.get(PEERS, "").split(","))
        return _render(await self.run_tests(choose_active(names.split(","), peers=peers)))

    async def run_tests(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Make tests that somebody asked for, and write down what they found."""
        async with self._exclusive(checks):
            return await self._run_tests(checks)

    async def _run_tests(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        results: list[CheckResult] = []
        for check in checks:
            log.info("agent.testing", node=self._connection.node, run_tests=check.name)
            run = partial(run_check_safely, check, self._view())
            results += await self._offload.run(run)
        await self._check_runner.report(results)
        return results

    @contextlib.asynccontextmanager
    async def _exclusive(self, checks: Sequence[HealthCheck]) -> AsyncIterator[bool]:
        """Keep work away while the block runs; its value is whether everybody has been told.

        A note on disk outlives this process, so that its next life lets work in again.
        """
        async with self._lock:
            await self._disk_offload.run(lambda: self._disk.replace(TESTING_FILE, b"", sync=False))
            names = ", ".join(check.name for check in checks)
            reason = f"the GPUs are being tested ({names}); no work may start until that is done"
            await self._check_runner.report(
                [CheckResult(check=TESTING, health=Health.DEGRADED, reason=reason)]
            )
            reported = await self._wait_until_reported()
            try:
                yield reported
            except Exception:
                await self._allow_work()
                raise
            await self._allow_work()

    async def _wait_until_reported(self) -> bool:
        """Wait until the control plane knows, and a while longer for those it tells in turn."""
        for _ in range(REPORT_TRIES):
            if self._signals.stopping:
                return False
            if await self._check_runner.all_delivered():
                await self._signals.diagnostics.wait(SETTLE_S)
                return not self._signals.stopping
            await self._signals.diagnostics.wait(1.0)
        return False

    async def _recover(self) -> None:
        """Let work in that an earlier life of the agent kept away and could not let in again."""
        async with self._lock:
            if await self._disk_offload.run(lambda: self._disk.read(TESTING_FILE)) is not None:
                await self._allow_work()

    async def _allow_work(self) -> None:
        await self._check_runner.report([CheckResult(check=TESTING, health=Health.HEALTHY)])
        await self._disk_offload.run(lambda: self._disk.remove(TESTING_FILE))

    def _view(self) -> MachineView:
        return MachineView(
            now=self._clock.now(),
            gpus=GpuSnapshot(self._gpus),
            host=self._host,
            diagnostics=self._diagnostics,
        )

    def _is_idle(self) -> bool:
        try:
            facts = [self._gpus.health(gpu) for gpu in self._gpus.list_gpus()]
        except GpuError:
            return False  # Who does not answer is in no state to be tested.
        return not any(one.holders or one.utilization_pct for one in facts)

    def _load_due(self) -> datetime:
        """Return when the next round is due; the first is put somewhere into the week ahead.

        Machines that started together should not be tested together.
        """
        raw = self._disk.read(DUE_FILE)
        try:
            return datetime.fromisoformat((raw or b"").decode())
        except ValueError:
            due = self._clock.now() + WEEKLY * self._entropy.uniform(0.0, 1.0)
            self._save_due(due)
            return due

    async def _reschedule(self, after: timedelta) -> datetime:
        due = self._clock.now() + after
        await self._disk_offload.run(lambda: self._save_due(due))
        return due

    def _save_due(self, due: datetime) -> None:
        self._disk.replace(DUE_FILE, due.isoformat().encode(), sync=False)


def _render(results: Sequence[CheckResult]) -> str:
    """Return one line a result, as `navarch diag` reads it."""
    reported = [r for r in results if r.reason or r.health is not Health.HEALTHY]
    lines = [f"{result.check} {result.health}: {result.reason}" for result in reported]
    return "\n".join(lines) or f"{len(results)} results, all healthy"
