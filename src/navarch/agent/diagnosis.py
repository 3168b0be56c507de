"""Tests that use the GPUs: when somebody asks, and weekly while the machine is idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import structlog

from navarch.agent.bell import Bells
from navarch.agent.contact import Contact
from navarch.agent.disk import Disk
from navarch.agent.look import Look
from navarch.agent.looks import Looks
from navarch.agent.scan import make
from navarch.core.command import Command
from navarch.core.health import TESTING, CheckResult, Health
from navarch.health.checks.issues import WEEKLY
from navarch.health.checks.standard import active_checks, choose_active
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.clock import Clock, Entropy
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import Host
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)

FILE = "diagnosed.txt"
MARK = "testing"
TELL_TRIES = 30
SETTLE_S = 10.0
"""How long the system that hands out work is given to hear that there is none for this node."""
ASK_AGAIN = timedelta(minutes=10)
"""How long a machine that was busy is left alone."""
TESTS = "tests"
"""The parameter of the command that names the tests, separated by commas."""


PEERS = "peers"
"""The parameter that names other nodes for tests that span nodes: addresses with their GPUs."""


class Diagnosis:
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
        looks: Looks,
        contact: Contact,
        bells: Bells,
        disk_offload: Offload,
        offload: Offload,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._gpus = gpus
        self._host = host
        self._disk = disk
        self._diagnostics = diagnostics
        self._looks = looks
        self._contact = contact
        self._bells = bells
        self._disk_offload = disk_offload
        self._offload = offload
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Test weekly, until stopped. A machine that has no way to be tested is left alone."""
        if self._diagnostics is None:
            return
        await self._take_over()
        due = await self._disk_offload.run(self._recall)
        while not self._bells.stopping:
            wait = due - self._clock.now()
            if wait > timedelta(0):
                await self._bells.tests.wait(wait.total_seconds())
                continue
            if await self._offload.run(self._is_idle) and await self._test_if_idle():
                due = await self._plan(WEEKLY)
            else:
                due = self._clock.now() + ASK_AGAIN

    async def _test_if_idle(self) -> bool:
        """Make all tests, unless work came before it could be kept away; return whether."""
        checks = active_checks()
        async with self._alone(checks) as told:
            if not told or not await self._offload.run(self._is_idle):
                return False
            await self._make(checks)
        return True

    async def obey(self, command: Command) -> str:
        """Carry out a request for tests, or for all checks where it names none."""
        names = command.parameters.get(TESTS, "")
        if not names:
            return _in_words(await self._looks.look_now())
        peers = filter(None, command.parameters.get(PEERS, "").split(","))
        return _in_words(await self.test(choose_active(names.split(","), peers=peers)))

    async def test(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Make tests that somebody asked for, and write down what they found."""
        async with self._alone(checks):
            return await self._make(checks)

    async def _make(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        results: list[CheckResult] = []
        for check in checks:
            log.info("agent.testing", node=self._contact.node, test=check.name)
            found = await self._offload.run(lambda check=check: make(check, self._view()))  # type: ignore[misc]
            results += found
        await self._looks.report(results)
        return results

    @contextlib.asynccontextmanager
    async def _alone(self, checks: Sequence[HealthCheck]) -> AsyncIterator[bool]:
        """Keep work away while the block runs; its value is whether everybody has been told.

        A note on disk outlives this process, so that its next life lets work in again.
        """
        async with self._turn:
            await self._disk_offload.run(lambda: self._disk.replace(MARK, b"", sync=False))
            names = ", ".join(check.name for check in checks)
            reason = f"the GPUs are being tested ({names}); no work may start until that is done"
            await self._looks.report(
                [CheckResult(check=TESTING, health=Health.DEGRADED, reason=reason)]
            )
            told = await self._is_told()
            try:
                yield told
            except Exception:
                await self._let_work_in()
                raise
            await self._let_work_in()

    async def _is_told(self) -> bool:
        """Wait until the control plane knows, and a while longer for those it tells in turn."""
        for _ in range(TELL_TRIES):
            if self._bells.stopping:
                return False
            if await self._looks.everything_is_told():
                await self._bells.tests.wait(SETTLE_S)
                return not self._bells.stopping
            await self._bells.tests.wait(1.0)
        return False

    async def _take_over(self) -> None:
        """Let work in that an earlier life of the agent kept away and could not let in again."""
        async with self._turn:
            if await self._disk_offload.run(lambda: self._disk.read(MARK)) is not None:
                await self._let_work_in()

    async def _let_work_in(self) -> None:
        await self._looks.report([CheckResult(check=TESTING, health=Health.HEALTHY)])
        await self._disk_offload.run(lambda: self._disk.remove(MARK))

    def _view(self) -> MachineView:
        return MachineView(
            now=self._clock.now(),
            gpus=Look(self._gpus),
            host=self._host,
            diagnostics=self._diagnostics,
        )

    def _is_idle(self) -> bool:
        try:
            facts = [self._gpus.health(gpu) for gpu in self._gpus.list_gpus()]
        except GpuError:
            return False  # Who does not answer is in no state to be tested.
        return not any(one.holders or one.utilization_pct for one in facts)

    def _recall(self) -> datetime:
        """Return when the next round is due; the first is put somewhere into the week ahead.

        Machines that started together should not be tested together.
        """
        raw = self._disk.read(FILE)
        try:
            return datetime.fromisoformat((raw or b"").decode())
        except ValueError:
            due = self._clock.now() + WEEKLY * self._entropy.uniform(0.0, 1.0)
            self._note(due)
            return due

    async def _plan(self, after: timedelta) -> datetime:
        due = self._clock.now() + after
        await self._disk_offload.run(lambda: self._note(due))
        return due

    def _note(self, due: datetime) -> None:
        self._disk.replace(FILE, due.isoformat().encode(), sync=False)


def _in_words(results: Sequence[CheckResult]) -> str:
    """Return one line a result, as `navarch diag` reads it."""
    told = [r for r in results if r.reason or r.health is not Health.HEALTHY]
    lines = [f"{result.check} {result.health}: {result.reason}" for result in told]
    return "\n".join(lines) or f"{len(results)} results, all healthy"
