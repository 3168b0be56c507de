"""Tests that use the GPUs: when somebody asks, and weekly while the machine is idle."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from navarch.agent.bell import Bells
from navarch.agent.contact import Contact
from navarch.agent.disk import Disk
from navarch.agent.look import Look
from navarch.agent.looks import Looks
from navarch.agent.scan import make
from navarch.core.command import Command
from navarch.core.health import CheckResult, Health
from navarch.health.checks.active import active_checks, choose_active
from navarch.health.trial import WEEKLY
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.clock import Clock, Entropy
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import Host
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)

FILE = "diagnosed.txt"
ASK_AGAIN = timedelta(minutes=10)
"""How long a machine that was busy is left alone."""
TESTS = "tests"
"""The parameter of the command that names the tests, separated by commas."""


class Diagnosis:
    """Tests the GPUs, one round at a time, on a thread of its own.

    The round's GPUs must not be in use; the tests look for that themselves. Passive checks and
    heartbeats go on meanwhile.
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

    async def run(self) -> None:
        """Test weekly, until stopped. A machine that has no way to be tested is left alone."""
        if self._diagnostics is None:
            return
        due = await self._disk_offload.run(self._recall)
        while not self._bells.stopping:
            wait = due - self._clock.now()
            if wait > timedelta(0):
                await self._bells.tests.wait(wait.total_seconds())
                continue
            if await self._offload.run(self._is_idle):
                await self.test(active_checks())
                due = await self._plan(WEEKLY)
            else:
                due = self._clock.now() + ASK_AGAIN

    async def obey(self, command: Command) -> str:
        """Carry out a request for tests, or for all checks where it names none."""
        names = command.parameters.get(TESTS, "")
        if not names:
            return _in_words(await self._looks.look_now())
        return _in_words(await self.test(choose_active(names.split(","))))

    async def test(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Make tests, and write down what they found."""
        results: list[CheckResult] = []
        for check in checks:
            log.info("agent.testing", node=self._contact.node, test=check.name)
            found = await self._offload.run(lambda check=check: make(check, self._view()))  # type: ignore[misc]
            results += found
        await self._looks.report(results)
        return results

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
