"""The agent of a simulated machine: registers, sends heartbeats, reports, carries out commands.

This is the product's agent, abbreviated so that a day of 5,000 machines takes seconds:

- it runs no checks: a fault puts what the checks would find into `results`;
- one loop sends heartbeats and reports, where the product's agent has one for each;
- with a `HeartbeatSchedule`, heartbeats that change nothing need not be sent (`computed`), and
  with `quiet`, reports are left out that repeat that all is well.

Messages, retries (`Backoff`) and the order of registration, heartbeat and report are those of the
product's agent. `fidelity: real` in a scenario runs the product's agent instead (see
`navarch.sim.world.product_agent`); a test compares the reports of both.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from navarch.agent.connection import Backoff
from navarch.agent.probes import run_probe
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics
from navarch.core.launch import Offering
from navarch.core.recovery import Command, CommandKind
from navarch.ports.agents import AgentApi, Link, Registration
from navarch.ports.clock import Clock, Entropy
from navarch.ports.host import Prober
from navarch.providers.simulated import Machine
from navarch.sim.kernel.clock import SimClock
from navarch.sim.world.leader import Crash
from navarch.sim.world.liveness import HeartbeatSchedule

T = TypeVar("T")

LATENCY_S = (0.001, 0.05)
"""The time that a message takes each way, unless a story or scenario sets another."""


@dataclass(slots=True)
class SimAgent:
    """The agent of one machine, from its boot to its end.

    `api` returns the control plane as it can be reached now, or raises UnreachableError;
    `results` is what the machine's checks would find.
    """

    clock: Clock
    entropy: Entropy
    machine: Machine
    api: Callable[[], AgentApi | Link]
    loss: Callable[[], float] = lambda: 0.0
    """The share of messages that the network loses, repeats, or answers in vain."""
    latency_s: tuple[float, float] | None = LATENCY_S
    """The time that a message takes each way, at least and at most; None for no time at all."""
    schedule: HeartbeatSchedule | None = None
    """The times of its heartbeats, if they can be computed; else each follows the last."""
    interval_s: float = 30.0
    report_interval_s: float | None = None
    """The time between reports; None: one with every heartbeat."""
    quiet: bool = False
    """Whether reports are left out that would repeat that all is well."""
    retries: bool = False
    """Whether a failed heartbeat is repeated soon, as the product's agent does."""
    computed: bool = False
    """Whether heartbeats that change nothing are left out; see `ComputedLiveness`."""
    follows_server: bool = False
    """Whether it takes its intervals from the control plane."""
    gpus: int = 8
    gpu_type: str = "NVIDIA H100 80GB HBM3"
    driver: str = ""
    image: str = ""
    kernel: str = ""
    agent_version: str = ""
    skew_s: float = 0.0
    """The error of its machine's clock."""
    place: Offering | None = None
    """Its offering, if the control plane did not buy its machine."""
    labels: Mapping[str, str] = field(default_factory=dict)
    boot_id: str = "boot-1"
    load: Callable[[], float] | None = None
    """Returns the utilization of its GPUs in percent, if heartbeats carry it."""
    work: Callable[[], Mapping[str, str]] | None = None
    """Returns the speed and the job of each GPU, if reports carry them."""
    execute: Callable[["SimAgent", Command], Awaitable[tuple[bool, str]]] | None = None
    """Carries out a command on the machine; without it, commands only succeed."""
    prober: Prober | None = None
    """Connects to other machines; without it, the agent runs no probes."""
    delegate: Callable[["SimAgent"], Awaitable[None]] | None = None
    """Runs the product's agent on this machine instead."""
    replays: bool = False
    """Whether the delegate replays a recording, so that no fault can be injected."""
    on_wake: Callable[[], None] = lambda: None
    """Called when something about the machine has changed."""
    on_terminate: Callable[[], None] = lambda: None
    on_reply: Callable[[float], None] | None = None
    """Called with the time at which an answered heartbeat was sent."""
    on_suspend: Callable[["SimAgent"], None] = lambda _: None
    on_resume: Callable[["SimAgent"], None] = lambda _: None
    hung: bool = False
    """A hung agent never sends anything again."""
    unreachable: bool = False
    """Whether its machine's network is down."""
    results: dict[str, CheckResult] = field(default_factory=dict)
    reported: dict[str, CheckResult] | None = None
    """The results that the control plane received last."""
    registered: bool = False
    reports: int = 0
    beats: int = 0
    """Heartbeats that were answered or lost."""
    beats_lost: int = 0
    awaiting_reply: bool = False
    carried_out: dict[CommandId, CommandKind] = field(default_factory=dict)
    node: NodeId = field(init=False)
    """The name in its machine's user data."""
    _report_due: bool = False
    _urgent: bool = False
    """Whether the next beat is due at once."""
    _woken: bool = False
    """Whether something has happened since the last beat began that the next may be about."""
    _failed: bool = False
    """Whether the last beat did not get through."""
    _changed: bool = False
    """Whether a message of the present beat has changed what the control plane holds."""
    _suspended: asyncio.Future[None] | None = None
    _asleep: asyncio.Future[None] | None = None
    _sending: asyncio.Task[None] | None = None
    """The task of the present beat."""
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self.node = NodeId(self.machine.request.name)
        self._backoff = Backoff(self.entropy)

    # What others do to it

    def wake(self) -> None:
        """Send the next heartbeat: it may make a difference."""
        self._woken = True
        self.on_wake()
        if self._suspended is not None and not self._suspended.done():
            self._suspended.set_result(None)

    def on_commit(self) -> None:
        """Send the next heartbeat, since the record of its node has changed."""
        if self._suspended is not None:
            self.wake()
        elif self._sending is not None:
            if asyncio.current_task() is self._sending:
                self._changed = True
            else:
                self._woken = True

    def report_now(self) -> None:
        """Send a heartbeat and a report at once."""
        self._urgent = True
        self.wake()
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)

    def reboot(self, boot_id: str) -> None:
        """Start again after a reboot of the machine, which ends earlier findings."""
        self.boot_id = boot_id
        self.registered = False
        self.reported = None
        self.results = {BOOT: CheckResult(check=BOOT, health=Health.HEALTHY)}
        self.on_wake()

    # Its life

    async def run(self) -> None:
        """Run until cancelled."""
        if self.delegate is not None:
            await self.delegate(self)
        elif self.schedule is None:
            await self._run_by_chance()
        else:
            await self._run_by_schedule(self.schedule)

    async def _run_by_schedule(self, schedule: HeartbeatSchedule) -> None:
        """Send heartbeats at times that only the schedule decides."""
        clock, last, starts_s = self.clock, 0, schedule.started_s
        in_turn = True
        while not self.hung:
            span_s = self.report_interval_s
            self._report_due |= span_s is None or self._urgent
            if in_turn and span_s is not None:
                self._report_due |= schedule.begins_span(last, starts_s, span_s)
            settled = await self._beat()
            if self.computed and settled and not self._woken:
                await self._suspend()
            following, starts_s = schedule.next_start(clock.monotonic(), after=last)
            retry_s = starts_s
            if self._failed and self.retries:
                retry_s = min(clock.monotonic() + self._backoff.next_s(), starts_s)
            in_turn = await self._sleep_until(retry_s) and retry_s == starts_s
            if in_turn:
                last = following

    async def _run_by_chance(self) -> None:
        report_at = self.clock.monotonic()
        while True:
            if not self.hung:
                now_s = self.clock.monotonic()
                if self.report_interval_s is None or now_s >= report_at or self._urgent:
                    report_at = now_s + (self.report_interval_s or 0.0)
                    self._report_due = True
                await self._beat()
            if self._failed and self.retries:
                pause_s = self._backoff.next_s()
            else:
                pause_s = self.interval_s * self.entropy.uniform(0.95, 1.05)
            await self._sleep_until(self.clock.monotonic() + pause_s)

    async def _sleep_until(self, moment_s: float) -> bool:
        """Wait for a moment; return False if `report_now` ended the wait."""
        if self._urgent:
            return False
        loop = asyncio.get_running_loop()
        self._asleep = asleep = loop.create_future()
        if isinstance(self.clock, SimClock):
            timer = loop.call_at(moment_s, _wake, asleep)
        else:
            timer = loop.call_later(moment_s - self.clock.monotonic(), _wake, asleep)
        try:
            await asleep
        finally:
            timer.cancel()
            self._asleep = None
        return not self._urgent

    async def _suspend(self) -> None:
        """Send no heartbeats until woken; the control plane takes them as received."""
        self.on_suspend(self)
        self._suspended = asyncio.get_running_loop().create_future()
        try:
            await self._suspended
        finally:
            self._suspended = None
            self.on_resume(self)

    # One beat

    async def _beat(self) -> bool:
        """Register if needed, send a heartbeat and, if one is due, a report.

        Returns whether the next beat changes nothing, unless the agent is woken before.
        """
        self._woken = self._urgent = self._changed = False
        self._sending, self._failed = asyncio.current_task(), True
        commands, reports = len(self.carried_out), self.reports
        try:
            if not self.registered:
                self.reported = None
                await self._register()
                self.registered = True
            for command in await self.send_heartbeat(self._heartbeat):
                await self._carry_out(command)
            if self._report_due:
                await self._report()
        except NotFoundError:
            self.registered = False
        except (NavarchError, Crash):
            pass  # Unreachable, or the control plane died while it answered.
        else:
            self._failed = False
            self._backoff.failures = 0
            complete = self.reported == self.results and len(self.carried_out) == commands
            if not complete or self.hung or self.work is not None:
                return False
            # Every later report changes nothing, as this one did.
            unchanged = self.reports > reports and not self._changed
            return unchanged or _all_well(self.results)
        finally:
            self._sending = None
        return False

    async def _register(self) -> None:
        self.results.setdefault(BOOT, CheckResult(check=BOOT, health=Health.HEALTHY))
        found = dict(self.results)
        registration = Registration(
            node=self.node,
            token=self.machine.request.token if self.place is None else None,
            boot_id=self.boot_id,
            place=self.place,
            inventory=Inventory(
                gpus=tuple(
                    Gpu(
                        index=index,
                        uuid=f"GPU-{self.machine.id}-{index}",
                        name=self.gpu_type,
                        driver_version=self.driver,
                    )
                    for index in range(self.gpus)
                ),
                hostname=self.node,
                kernel_version=self.kernel,
                image=self.image,
                agent_version=self.agent_version,
                commands=(CommandKind.PROBE,) if self.prober is not None else (),
                labels=self.labels,
            ),
            report=self._report_of(found, self._readings()) if self._report_due else None,
        )
        welcome = await self.send(lambda: self.api().register(registration))
        if self.follows_server:
            self.interval_s = welcome.heartbeat_interval.total_seconds()
            self.report_interval_s = welcome.health_check_interval.total_seconds()
        if welcome.status and self._report_due:
            self._mark_reported(found)

    async def send_heartbeat(self, heartbeat: Callable[[], Awaitable[T]]) -> T:
        """Send a heartbeat, and count it as answered or lost.

        A heartbeat that ends with its machine is not counted.
        """
        sent = 0.0 if self.on_reply is None else self.clock.monotonic()
        self.awaiting_reply = True
        try:
            answer = await self.send(heartbeat)
        except (NavarchError, Crash):
            self.beats += 1
            self.beats_lost += 1
            raise
        finally:
            self.awaiting_reply = False
        self.beats += 1
        if self.on_reply is not None:
            self.on_reply(sent)
        return answer

    async def _heartbeat(self) -> Sequence[Command]:
        metrics = None
        if self.load is not None:
            gpu = GpuMetrics(utilization_pct=self.load())
            metrics = NodeMetrics(gpus=(gpu,) * self.gpus)
        return await beat(self.api(), self.node, metrics)

    async def _carry_out(self, command: Command) -> None:
        # Commands are delivered at least once and carried out once.
        self.carried_out.setdefault(command.id, command.kind)
        succeeded, result = True, "done"
        if command.kind is CommandKind.PROBE and self.prober is not None:
            result = await run_probe(command.parameters, self.prober)
        elif self.execute is not None:
            succeeded, result = await self.execute(self, command)

        async def finish() -> None:
            api = self.api()
            await api.finish(self.node, command.id, succeeded=succeeded, result=result)

        await self.send(finish)
        if command.kind is CommandKind.TERMINATE:
            self.on_terminate()

    async def _report(self) -> None:
        found = dict(self.results)
        read = self._readings()
        if self.quiet and not read and found == self.reported and _all_well(found):
            self._report_due = False
            return
        report = self._report_of(found, read)
        await self.send(lambda: self.api().report_health(self.node, report))
        self._mark_reported(found)

    def _report_of(
        self, found: Mapping[str, CheckResult], read: tuple[CheckResult, ...]
    ) -> HealthReport:
        self.reports += 1
        return HealthReport(
            results=(*found.values(), *read),
            stream=self.machine.id,
            number=self.reports,
            boot_id=self.boot_id,
            # A report without a time was made just now.
            at=self.clock.now() + timedelta(seconds=self.skew_s) if self.skew_s else None,
        )

    def _mark_reported(self, found: dict[str, CheckResult]) -> None:
        self._report_due = False
        # An event that has passed is reported once; a fault, until it is over.
        for check, result in list(found.items()):
            if result.lasting and result.health is Health.HEALTHY:
                del found[check]
                if self.results.get(check) is result:
                    del self.results[check]
        self.reported = found

    def _readings(self) -> tuple[CheckResult, ...]:
        facts = self.work() if self.work is not None else {}
        if not facts:
            return ()
        return (CheckResult(check="work", health=Health.HEALTHY, facts=facts),)

    def send(self, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Send one message over a network that may lose it, repeat it, or lose the answer."""
        if self.unreachable:
            raise UnreachableError("the machine has no network")
        loss = self.loss()
        return call() if self.latency_s is None and not loss else self._send(call, loss)

    async def _send(self, call: Callable[[], Awaitable[T]], loss: float) -> T:
        latency_s = self.latency_s or (0.0, 0.0)
        await self.clock.sleep(self.entropy.uniform(*latency_s))
        fate = self.entropy.uniform(0, 3) / max(loss, 1e-9)
        if fate < 1:
            raise UnreachableError("the message was lost")
        answer = await call()
        if fate < 2:
            raise UnreachableError("the answer was lost")
        if fate < 3:
            answer = await call()
        await self.clock.sleep(self.entropy.uniform(*latency_s))
        return answer


async def beat(
    api: AgentApi | Link, node: NodeId, metrics: NodeMetrics | None
) -> Sequence[Command]:
    """Send a heartbeat; return the commands for the node."""
    answer = api.heartbeat(node, metrics)
    # The control plane in this process answers at once; a link does not.
    return await answer if inspect.isawaitable(answer) else answer


def _wake(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)


def _all_well(results: Mapping[str, CheckResult]) -> bool:
    return all(result.health is Health.HEALTHY for result in results.values())
