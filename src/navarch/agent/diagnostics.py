"""Tests that load the GPUs: on command, and weekly while the machine is idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from navarch.agent.check_runner import CheckRunner, GpuSnapshot
from navarch.agent.context import AgentContext
from navarch.agent.recording import run_check_safely
from navarch.core.health import TESTING, CheckResult, Health
from navarch.core.recovery import Command
from navarch.health.checks.issues import WEEKLY
from navarch.health.checks.standard import active_checks, choose_active
from navarch.ports.checks import Diagnostics, HealthCheck, MachineView
from navarch.ports.clock import Offload
from navarch.ports.gpu import GpuError

log = structlog.get_logger(__name__)

DUE_FILE = "diagnosed.txt"
TESTING_FILE = "testing"
REPORT_TRIES = 30
SETTLE_S = 10.0
"""How long to wait for schedulers to learn that the node takes no work."""
RETRY_AFTER = timedelta(minutes=10)
"""How long to wait before trying again on a busy machine."""
TESTS = "tests"
"""The command parameter that names the tests, separated by commas."""
PEERS = "peers"
"""The command parameter that names peers of multi-node tests: addresses with their GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticLoop:
    """Tests the GPUs, one round at a time, on a thread of its own.

    No work may start on the node during a round: the loop first reports the node as under test and
    waits for schedulers to react. The tests themselves skip GPUs that are in use. Passive checks
    and heartbeats continue.
    """

    context: AgentContext
    check_runner: CheckRunner
    diagnostics: Diagnostics | None
    offload: Offload
    """Runs the tests."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Test weekly, until stopped."""
        clock, signals = self.context.clock, self.context.signals
        await self._recover()
        due = await self.context.offload.run(self._load_due)
        while not signals.stopping:
            wait = due - clock.now()
            if wait > timedelta(0):
                await signals.diagnostics.sleep(wait.total_seconds())
            elif await self.offload.run(self._is_idle) and await self._test_if_idle():
                due = clock.now() + WEEKLY
                await self.context.offload.run(partial(self._save_due, due))
            else:
                due = clock.now() + RETRY_AFTER

    async def _test_if_idle(self) -> bool:
        """Run all tests unless work has started meanwhile; return whether they ran."""
        checks = active_checks()
        async with self._exclusive(checks) as reported:
            if not reported or not await self.offload.run(self._is_idle):
                return False
            await self._run_tests(checks)
        return True

    async def handle_command(self, command: Command) -> str:
        """Run the tests that the command names, or every check if it names none."""
        names = command.parameters.get(TESTS, "")
        if not names:
            return _render(await self.check_runner.run_all())
        peers = filter(None, command.parameters.get(PEERS, "").split(","))
        checks = choose_active(names.split(","), peers=peers)
        async with self._exclusive(checks):
            return _render(await self._run_tests(checks))

    async def _run_tests(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Run tests and store their results, whether or not the machine is idle."""
        results: list[CheckResult] = []
        for check in checks:
            log.info("agent.testing", node=self.context.connection.node, test=check.name)
            view = MachineView(
                now=self.context.clock.now(),
                gpus=GpuSnapshot(self.context.gpus),
                host=self.context.host,
                diagnostics=self.diagnostics,
            )
            results += await self.offload.run(partial(run_check_safely, check, view))
        await self.check_runner.report(results)
        return results

    @contextlib.asynccontextmanager
    async def _exclusive(self, checks: Sequence[HealthCheck]) -> AsyncIterator[bool]:
        """Keep new work off the node inside the block; yield whether the control plane confirmed.

        A marker file survives a crash, so that the restarted agent allows work again.
        """
        async with self._lock:
            disk = self.context.disk
            await self.context.offload.run(partial(disk.replace, TESTING_FILE, b"", sync=False))
            names = ", ".join(check.name for check in checks)
            reason = f"the GPUs are being tested ({names}); no work may start until the tests end"
            await self.check_runner.report(
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
        """Wait until the control plane has the report and schedulers had time to act on it."""
        clock, signals, spool = self.context.clock, self.context.signals, self.context.spool
        for _ in range(REPORT_TRIES):
            if signals.stopping:
                return False
            if await spool.run(spool.buffer.oldest_report, clock.now()) is None:
                await signals.diagnostics.sleep(SETTLE_S)
                return not signals.stopping
            await signals.diagnostics.sleep(1.0)
        return False

    async def _recover(self) -> None:
        """Allow work again after a crash during a test."""
        async with self._lock:
            read = partial(self.context.disk.read, TESTING_FILE)
            if await self.context.offload.run(read) is not None:
                await self._allow_work()

    async def _allow_work(self) -> None:
        await self.check_runner.report([CheckResult(check=TESTING, health=Health.HEALTHY)])
        await self.context.offload.run(partial(self.context.disk.remove, TESTING_FILE))

    def _is_idle(self) -> bool:
        try:
            gpus = self.context.gpus
            facts = [gpus.health(gpu) for gpu in gpus.list_gpus()]
        except GpuError:
            return False  # A driver that does not respond cannot be tested.
        return not any(one.holders or one.utilization_pct for one in facts)

    def _load_due(self) -> datetime:
        """Return when the next round is due; the first is at a random time within a week.

        The random time spreads the tests of machines that started together.
        """
        raw = self.context.disk.read(DUE_FILE)
        try:
            return datetime.fromisoformat((raw or b"").decode())
        except ValueError:
            due = self.context.clock.now() + WEEKLY * self.context.entropy.uniform(0.0, 1.0)
            self._save_due(due)
            return due

    def _save_due(self, due: datetime) -> None:
        self.context.disk.replace(DUE_FILE, due.isoformat().encode(), sync=False)


def _render(results: Sequence[CheckResult]) -> str:
    """Return one line per notable result, in the format that `navarch diag` parses."""
    notable = [r for r in results if r.reason or r.health is not Health.HEALTHY]
    lines = [f"{result.check} {result.health}: {result.reason}" for result in notable]
    return "\n".join(lines) or f"{len(results)} results, all healthy"
