"""An agent of a scenario: in virtual time or over a wire, with the manners the file asks for."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from navarch.core.command import Command, CommandKind
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.inventory import Gpu, Inventory
from navarch.core.metrics import GpuMetrics, NodeMetrics
from navarch.core.offering import Offering
from navarch.ports.agents import AgentApi, Registration
from navarch.ports.clock import Clock, Entropy
from navarch.ports.link import Link
from navarch.providers.simulated import Machine
from navarch.sim.kernel.clock import SimClock
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.sim.world.leader import Crash

T = TypeVar("T")


@dataclass(slots=True)
class ScenarioAgent:
    """Runs on one machine from its boot to its end.

    `api` returns the control plane as it can be reached now, or raises
    UnreachableError; `results` is what the checks would find.
    """

    clock: Clock
    entropy: Entropy
    machine: Machine
    api: Callable[[], AgentApi | Link]
    loss: Callable[[], float] = lambda: 0.0
    """The share of messages that the network loses, repeats or brings back too late."""
    wire_s: tuple[float, float] | None = (0.001, 0.05)
    """How long a message takes each way; None for no time at all."""
    interval_s: float = 30.0
    report_interval_s: float | None = None
    """How often it says what its checks find; with every heartbeat if None."""
    quiet: bool = False
    """Whether it leaves reports out that would repeat that all is well, which change nothing."""
    gpus: int = 8
    gpu_type: str = "NVIDIA H100 80GB HBM3"
    driver: str = ""
    skew_s: float = 0.0
    """How far its machine's clock is ahead."""
    place: Offering | None = None
    """Where it runs, on a machine that nobody here bought and that therefore must say so."""
    labels: Mapping[str, str] = field(default_factory=dict)
    on_terminate: Callable[[], None] = lambda: None
    """What it does when it is told to end its machine."""
    load: Callable[[], float] | None = None
    """How busy its GPUs are, in percent; one that is not known is not sent."""
    work: Callable[[], Mapping[str, str]] | None = None
    """How fast each GPU works, and for which job, where anybody compares them: then every report
    makes a difference."""
    boot_id: str = "boot-1"
    hung: bool = False
    """A hung agent does nothing at all, for ever."""
    unreachable: bool = False
    """Its machine's own network is down: it lives, and nobody hears of it."""
    registered: bool = False
    said: dict[str, CheckResult] | None = None
    """What it last reported and was heard to say."""
    obedient: bool = False
    """Whether it speaks as often as the control plane asks it to when it registers."""
    results: dict[str, CheckResult] = field(default_factory=dict)
    reports: int = 0
    beats: int = 0
    """Heartbeats whose fate is known: answered, or lost."""
    beats_lost: int = 0
    """Heartbeats that no answer came to."""
    awaits_answer: bool = False
    """Whether a heartbeat is under way of which nobody knows yet what becomes of it."""
    on_answer: Callable[[float], None] | None = None
    """Hears of every answer to a heartbeat when that was sent, by the clock."""
    carried_out: dict[CommandId, CommandKind] = field(default_factory=dict)
    schedule: HeartbeatSchedule | None = None
    """When it beats, if that can be computed; else each beat is some time after the last."""
    computed: bool = False
    """Whether beats that change nothing are left out, since others can compute them."""
    lead: Callable[["ScenarioAgent"], Awaitable[None]] | None = None
    """Who speaks instead of it, where its machine lives through a recording."""
    foregone: Callable[[HealthReport], bool] = lambda _: False
    """Whether the control plane has weighed a report before and would make nothing of it again."""
    on_suspend: Callable[["ScenarioAgent"], None] = lambda _: None
    on_resume: Callable[["ScenarioAgent"], None] = lambda _: None
    _report_due: bool = False
    """Whether to say what the checks find; what could not be said is said with the next beat."""
    node: NodeId = field(init=False)
    """The name it was given with its user data."""
    _woken: bool = False
    """Whether something has happened, since the last beat began, that the next may be about."""
    _suspended: asyncio.Future[None] | None = None
    """What it waits for while it rests."""
    _speaks: asyncio.Task[None] | None = None
    """The task in which it speaks, while it does."""

    def __post_init__(self) -> None:
        self.node = NodeId(self.machine.request.name)

    async def run(self) -> None:
        """Live until cancelled."""
        if self.lead is not None:
            await self.lead(self)
        elif self.schedule is None:
            await self._run_by_chance()
        else:
            await self._run_by_schedule(self.schedule)

    def wake(self) -> None:
        """Have the next beat carried out: it may make a difference."""
        self._woken = True
        if self._suspended is not None and not self._suspended.done():
            self._suspended.set_result(None)

    def on_commit(self) -> None:
        """Have the next beat carried out, unless this very agent's message was written down.

        What becomes of its beats after that it has yet to ask, before it rests. And while it
        neither rests nor speaks, its next beat is carried out anyway.
        """
        if self._suspended is not None:
            self.wake()
        elif self._speaks is not None and asyncio.current_task() is not self._speaks:
            self._woken = True

    async def _run_by_schedule(self, schedule: HeartbeatSchedule) -> None:
        """Beat at moments that only the pulse decides, whoever carries them out."""
        life, clock = asyncio.current_task(), self.clock
        assert isinstance(clock, SimClock), clock
        beat, starts_s = 0, schedule.started_s
        while not self.hung:
            self._woken = False
            span_s = self.report_interval_s
            self._report_due |= span_s is None or schedule.begins_span(beat, starts_s, span_s)
            self._speaks = life
            settled = await self._speak()
            self._speaks = None
            if self.computed and settled and not self._woken:
                await self._suspend()
            beat, starts_s = schedule.next_start(clock.monotonic(), after=beat)
            await clock.sleep_until(starts_s)

    async def _speak(self) -> bool:
        """Make one beat; return whether another would change nothing, as things are."""
        obeyed = len(self.carried_out)
        try:
            if not self.registered:
                self.said = None
                await self._register()
                self.registered = True
            await self._beat()
            if self._report_due:
                await self._report()
        except NotFoundError:
            self.registered = False
        except (NavarchError, Crash):
            pass  # Unreachable, or died while it served us: the next beat tries again.
        else:
            told_all = self.said == self.results and len(self.carried_out) == obeyed
            return told_all and not self.hung and self._repeats_itself()
        return False

    def _repeats_itself(self) -> bool:
        """Return whether all that its reports would say from now on is foregone."""
        if self.work is not None:
            return False
        if _all_well(self.results):
            return True
        if not self.computed:
            return False
        return self.foregone(HealthReport(results=tuple(self.results.values())))

    async def _suspend(self) -> None:
        """Beat in theory only, until roused."""
        self.on_suspend(self)
        self._suspended = asyncio.get_running_loop().create_future()
        try:
            await self._suspended
        finally:
            self._suspended = None
            self.on_resume(self)

    async def _run_by_chance(self) -> None:
        report_at = self.clock.monotonic()
        while True:
            if not self.hung:
                if self.report_interval_s is None or self.clock.monotonic() >= report_at:
                    report_at = self.clock.monotonic() + (self.report_interval_s or 0.0)
                    self._report_due = True
                await self._speak()
            await self.clock.sleep(self.interval_s * self.entropy.uniform(0.95, 1.05))

    def reboot(self, boot_id: str) -> None:
        """Come up again as after a restart of the machine: what had happened is history."""
        self.boot_id = boot_id
        self.registered = False
        self.said = None
        self.results = {BOOT: CheckResult(check=BOOT, health=Health.HEALTHY)}

    async def _register(self) -> None:
        self.results.setdefault(BOOT, CheckResult(check=BOOT, health=Health.HEALTHY))
        found = dict(self.results)
        registration = Registration(
            node=self.node,
            token=self.machine.request.token if self.place is None else None,
            boot_id=self.boot_id,
            place=self.place,
            inventory=self._inventory(),
            report=self._report_of(found, self._readings()) if self._report_due else None,
        )
        welcome = await self.send(lambda: self.api().register(registration))
        if self.obedient:
            self.interval_s = welcome.heartbeat_interval.total_seconds()
            self.report_interval_s = welcome.health_check_interval.total_seconds()
        if welcome.status:
            self._was_heard(found)

    def _inventory(self) -> Inventory:
        machine, name, driver = self.machine.id, self.gpu_type, self.driver
        gpus = [
            Gpu(index=i, uuid=f"GPU-{machine}-{i}", name=name, driver_version=driver)
            for i in range(self.gpus)
        ]
        return Inventory(gpus=tuple(gpus), hostname=self.node, labels=self.labels)

    async def _beat(self) -> None:
        for command in await self.tell(self._heartbeat):
            # Delivered at least once, carried out once: the agent remembers.
            self.carried_out.setdefault(command.id, command.kind)
            name = command.id
            await self.send(lambda name=name: self._finish(name))  # type: ignore[misc]
            if command.kind is CommandKind.TERMINATE:
                self.on_terminate()

    async def tell(self, heartbeat: Callable[[], Awaitable[T]]) -> T:
        """Send a heartbeat, and count it by what becomes of it.

        One that is cut off by the end of its machine counts as nothing: nobody waited for it.
        """
        sent = 0.0 if self.on_answer is None else self.clock.monotonic()
        self.awaits_answer = True
        try:
            answer = await self.send(heartbeat)
        except (NavarchError, Crash):
            self.beats += 1
            self.beats_lost += 1
            raise
        finally:
            self.awaits_answer = False
        self.beats += 1
        if self.on_answer is not None:
            self.on_answer(sent)
        return answer

    async def _report(self) -> None:
        found = dict(self.results)
        read = self._readings()
        if self.quiet and not read and found == self.said and _all_well(found):
            self._report_due = False
            return
        report = self._report_of(found, read)
        await self.send(lambda: self.api().report_health(self.node, report))
        self._was_heard(found)

    def _report_of(
        self, found: Mapping[str, CheckResult], read: tuple[CheckResult, ...]
    ) -> HealthReport:
        self.reports += 1
        return HealthReport(
            results=(*found.values(), *read),
            stream=self.machine.id,
            number=self.reports,
            # One whose clock is right need not say what time it is.
            at=self.clock.now() + timedelta(seconds=self.skew_s) if self.skew_s else None,
        )

    def _was_heard(self, found: dict[str, CheckResult]) -> None:
        self._report_due = False
        # What happened and passed is told of once; what is wrong, until it is over.
        for check, result in list(found.items()):
            if result.lasting and result.health is Health.HEALTHY:
                del found[check]
                if self.results.get(check) is result:
                    del self.results[check]
        self.said = found

    def _readings(self) -> tuple[CheckResult, ...]:
        facts = self.work() if self.work is not None else {}
        if not facts:
            return ()
        return (CheckResult(check="work", health=Health.HEALTHY, facts=facts),)

    async def _heartbeat(self) -> Sequence[Command]:
        metrics = None
        if self.load is not None:
            gpu = GpuMetrics(utilization_pct=self.load())
            metrics = NodeMetrics(gpus=(gpu,) * self.gpus)
        answer = self.api().heartbeat(self.node, metrics)
        # In one process it is answered at once; over a wire it is not.
        if isinstance(answer, list) or not inspect.isawaitable(answer):
            return answer
        return await answer

    async def _finish(self, command: CommandId) -> None:
        await self.api().finish(self.node, command, succeeded=True, result="done")

    def send(self, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Send one message over a network that may lose it, repeat it, or lose the answer."""
        if self.unreachable:
            raise UnreachableError("the machine has no network")
        loss = self.loss()
        return call() if self.wire_s is None and not loss else self._send(call, loss)

    async def _send(self, call: Callable[[], Awaitable[T]], loss: float) -> T:
        wire_s = self.wire_s or (0.0, 0.0)
        await self.clock.sleep(self.entropy.uniform(*wire_s))
        fate = self.entropy.uniform(0, 3) / max(loss, 1e-9)
        if fate < 1:
            raise UnreachableError("the message was lost")
        answer = await call()
        if fate < 2:
            raise UnreachableError("the answer was lost")
        if fate < 3:
            answer = await call()
        await self.clock.sleep(self.entropy.uniform(*wire_s))
        return answer


_WELL = frozenset({Health.HEALTHY})


def _all_well(results: Mapping[str, CheckResult]) -> bool:
    return {result.health for result in results.values()} <= _WELL
