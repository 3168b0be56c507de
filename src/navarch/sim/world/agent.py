"""An agent on a simulated machine: registers, beats, reports, obeys."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeVar

from navarch.agent.connection import Backoff
from navarch.core.command import Command, CommandKind
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.inventory import Gpu, Inventory
from navarch.core.metrics import GpuMetrics, NodeMetrics
from navarch.ports.agents import AgentApi, Registration
from navarch.ports.clock import Entropy
from navarch.providers.simulated import Machine
from navarch.sim.kernel.clock import SimClock
from navarch.sim.world.effects import SimEffects
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.sim.world.leader import Crash

T = TypeVar("T")


@dataclass(slots=True)
class SimAgent:
    """Runs on one machine from its boot to its end.

    `api` returns the control plane as it can be reached now, or raises
    UnreachableError; `results` is what the checks would find.
    """

    clock: SimClock
    entropy: Entropy
    machine: Machine
    api: Callable[[], AgentApi]
    schedule: HeartbeatSchedule
    loss: Callable[[], float] = lambda: 0.0
    """The share of messages that the network loses, repeats or brings back too late."""
    gpus: int = 8
    load: Callable[[], float] | None = None
    """How busy its GPUs are, in percent; one that is not known is not sent."""
    boot_id: str = "boot-1"
    hung: bool = False
    """A hung agent does nothing at all, for ever."""
    computed: bool = False
    """Whether beats that would change nothing are left out; see `navarch.sim.world.liveness`."""
    on_suspend: Callable[["SimAgent"], object] = lambda _: None
    on_resume: Callable[["SimAgent"], object] = lambda _: None
    results: dict[str, CheckResult] = field(default_factory=dict)
    reports: int = 0
    carried_out: dict[CommandId, CommandKind] = field(default_factory=dict)
    driver: str = "550.90.07"
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    effects: SimEffects | None = None
    """What it may do to its machine; without, it only says that it has."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _registered: bool = False
    _beat: int = 0
    _messages: int = 0
    _found: tuple[CheckResult, ...] = ()
    _urgent: bool = False
    _out_of_turn: bool = False
    _asleep: asyncio.Future[None] | None = None
    _moment_s: float = 0.0
    """When the last message was to arrive."""
    _resumed_s: float = -inf
    """Until when the beat under way was only computed."""
    _lost: bool = False
    """Whether the last message did not get through."""
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.entropy)

    @property
    def node(self) -> NodeId:
        """The name it was given with its user data."""
        return NodeId(self.machine.request.name)

    def wake(self) -> None:
        """Have the next beat carried out: it may make a difference."""
        self._woken.set()

    def on_commit(self) -> None:
        """Have the next beat carried out: what was written down may make a difference to it."""
        self.wake()

    def report_now(self) -> None:
        """Report at once: something was seen that does not wait for its turn."""
        self._urgent = True
        self._woken.set()
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)

    def register_again(self) -> None:
        """Register with the next beat: something about the machine has changed."""
        self._registered = False
        self.report_now()

    async def run(self) -> None:
        """Live until cancelled."""
        under_way = False
        while True:
            settled = False
            if not under_way:
                # What a beat reports is what is so when the agent sets out on it.
                self._found = tuple(self.results.values())
                self._out_of_turn, self._urgent = self._urgent, False
                if self._out_of_turn:
                    # It was not computed, so no part of it can lie in the past.
                    self._resumed_s = -inf
            if under_way or not self.hung:
                settled = await self._carry_out()
            # The rest of a beat proves nothing: what the agent was roused for may come after it.
            settled, under_way = settled and not under_way, False
            if self.computed and settled:
                under_way = await self._suspend()
            elif self._lost:
                await self._wait_to_retry()
                continue
            else:
                self._beat, _ = self.schedule.next_start(self.clock.monotonic())
            if not under_way:
                await self._sleep_until(self.schedule.starts_at(self._beat))

    async def _sleep_until(self, moment_s: float) -> None:
        if self._urgent:
            return
        loop = self.clock.loop
        self._asleep = asleep = loop.create_future()
        timer = loop.call_at(moment_s, _wake, asleep)
        try:
            await asleep
        finally:
            timer.cancel()
            self._asleep = None

    async def _wait_to_retry(self) -> None:
        """Wait as the real agent does, or two lost messages would pass for a dead machine."""
        now = self.clock.monotonic()
        retry_at = now + self._backoff.next_s()
        following, starts_s = self.schedule.next_start(now)
        if starts_s <= retry_at:
            self._beat = following
            retry_at = starts_s
        await self.clock.sleep_until(retry_at)

    async def _carry_out(self) -> bool:
        """Make one beat; return whether another would change nothing, as things are."""
        self._woken.clear()
        self._messages = 0
        self._lost = True
        try:
            reported = False
            if not self._registered:
                reported = await self._register()
                self._registered = True
            await self._speak(reported=reported)
        except NotFoundError:
            self._registered = False
        except (NavarchError, Crash):
            pass  # Unreachable, or died while it served us: tried again soon.
        else:
            self._lost = False
            self._backoff.reset()
            told_all = self._found == tuple(self.results.values())
            return told_all and not self._woken.is_set() and not self.hung
        finally:
            self._resumed_s = -inf
        return False

    async def _suspend(self) -> bool:
        """Beat in theory only, until roused; return whether in the middle of a beat."""
        self.on_suspend(self)
        try:
            await self._woken.wait()
        finally:
            self.on_resume(self)
        now = self.clock.monotonic()
        self._out_of_turn = False
        self._resumed_s = now
        self._beat = self.schedule.first_arrival_after(now) - 1
        if self._ends_at(self._beat) <= now:
            self._beat += 1
        return self.schedule.starts_at(self._beat) <= now

    def _ends_at(self, beat: int) -> float:
        """Return when the last answer of a beat is there that has a heartbeat and a report."""
        moment = self.schedule.arrives_at(beat)
        for message in range(1, 4):
            moment += self.schedule.latency_s(beat, message)
        return moment

    async def _register(self) -> bool:
        """Introduce the machine; return whether its report was taken along with that."""
        self.results.setdefault(BOOT, CheckResult(check=BOOT, health=Health.HEALTHY))
        self._found = tuple(self.results.values())
        gpus = tuple(
            Gpu(
                index=i,
                uuid=f"GPU-{self.machine.id}-{i}",
                name="NVIDIA H100 80GB HBM3",
                driver_version=self.driver,
            )
            for i in range(self.gpus)
        )
        inventory = Inventory(
            gpus=gpus, hostname=self.node, image=self.image, labels=dict(self.labels)
        )
        registration = Registration(
            node=self.node,
            token=self.machine.request.token,
            boot_id=self.boot_id,
            inventory=inventory,
            report=self._next_report(),
        )
        welcome = await self._send(lambda: self.api().register(registration))
        return welcome is not None and welcome.status != ""

    def _next_report(self) -> HealthReport:
        self.reports += 1
        return HealthReport(
            results=self._found,
            stream=self.machine.id,
            number=self.reports,
            boot_id=self.boot_id,
        )

    async def _speak(self, *, reported: bool) -> None:
        commands = await self._send(self._heartbeat) or ()
        if not reported:
            report = self._next_report()
            await self._send(lambda: self.api().report_health(self.node, report))
        for command in commands:
            # Delivered at least once, carried out once: the agent remembers.
            self.carried_out.setdefault(command.id, command.kind)
            succeeded, result = True, "done"
            if self.effects is not None:
                succeeded, result = await self.effects.execute(self, command)
            await self._send(partial(self._finish, command.id, succeeded, result))

    async def _heartbeat(self) -> Sequence[Command]:
        if self.load is None:
            return self.api().heartbeat(self.node)
        gpu = GpuMetrics(utilization_pct=self.load())
        return self.api().heartbeat(self.node, NodeMetrics(gpus=(gpu,) * self.gpus))

    async def _finish(self, command: CommandId, succeeded: bool, result: str) -> None:
        await self.api().finish(self.node, command, succeeded=succeeded, result=result)

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Send one message over a network that may lose it, repeat it, or lose the answer.

        Returns None for a message that had arrived before the agent was roused: it changed
        nothing then, or the agent would not have been at rest.
        """
        answer: T | None = None
        if await self._travel():
            loss = self.loss()
            fate = self.entropy.uniform(0, 3) / loss if loss else 3.0
            if fate < 1:
                raise UnreachableError("the message was lost")
            answer = await call()
            if fate < 2:
                raise UnreachableError("the answer was lost")
            if fate < 3:
                answer = await call()
        await self._travel()
        return answer

    async def _travel(self) -> bool:
        """Let a message be on its way: for as long in theory as in practice.

        Returns whether it arrives now, and not in the past that was only computed.
        """
        if self._messages == 0 and not self._out_of_turn:
            self._moment_s = self.schedule.arrives_at(self._beat)
        else:
            begun_s = max(self._moment_s, self.clock.monotonic())
            if self._moment_s <= self._resumed_s:
                begun_s = self._moment_s
            self._moment_s = begun_s + self.schedule.latency_s(self._beat, self._messages)
        self._messages += 1
        if self._moment_s <= self._resumed_s:
            return False
        await self.clock.sleep_until(self._moment_s)
        return True


def _wake(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)
