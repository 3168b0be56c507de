"""The product's agent on a simulated machine: with injected faults, or with a recording.

A scenario with `agents: {fidelity: real}` runs `navarch.agent.Agent` on a share of its machines, in
virtual time and over the scenario's network. Its loops, schedules, throttles, retries and spool are
the product's. Only the machine is simulated: one check finds the faults that were injected, GPUs
and host return simulated readings, and commands that change the machine have no effect on it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from navarch.agent.agent import Agent
from navarch.agent.event_sources import EventSources
from navarch.agent.recording import Recording
from navarch.agent.replay import InlineOffload, NullBookmark, ReplayedGpus, ReplayedKernelLog
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.errors import UnreachableError
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.instance import Gpu, GpuMetrics, NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.records import evolve
from navarch.core.recovery import Command
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import AgentApi, Link, Registration, Welcome
from navarch.ports.checks import EventSource, HealthCheck, MachineView
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuReader
from navarch.sim.world.agent import SimAgent, beat
from navarch.sim.world.leader import Crash

T = TypeVar("T")


async def run_product_agent(agent: SimAgent) -> None:
    """Run the product's agent on the machine of `agent`, and restart it with every boot."""
    disk = MemoryDisk()
    while True:
        boot_id, rebooted = agent.boot_id, asyncio.Event()
        real = _build(
            agent,
            boot_id,
            disk,
            InjectedGpus(agent),
            checks=[InjectedFaults(agent, boot_id)],
            clock=SkewedClock(agent),
        )

        def on_wake(
            real: Agent = real, boot_id: str = boot_id, rebooted: asyncio.Event = rebooted
        ) -> None:
            if agent.boot_id != boot_id:
                rebooted.set()
            else:
                real.run_all_checks()

        agent.on_wake = on_wake
        running = asyncio.ensure_future(real.run())
        reboot = asyncio.ensure_future(rebooted.wait())
        try:
            await asyncio.wait([running, reboot], return_when=asyncio.FIRST_COMPLETED)
        finally:
            reboot.cancel()
            running.cancel()
        if running.done() and not rebooted.is_set():
            return running.result()


async def replay_recording(recording: Recording, agent: SimAgent) -> None:
    """Run the product's agent on what was recorded, from now on, until cancelled.

    When the recording is over, the machine keeps its last readings.
    """
    clock = agent.clock
    event_sources = EventSources(
        clock,
        ReplayedGpus(clock, recording),
        [ReplayedKernelLog(clock, recording)],
        bookmark=NullBookmark(),
        boot_id=recording.boot_id,
    )
    real = _build(
        agent,
        recording.boot_id,
        MemoryDisk(),
        event_sources,
        checks=standard_checks(),
        clock=clock,
        sources=event_sources.sources,
    )
    await real.run()


def _build(
    agent: SimAgent,
    boot_id: str,
    disk: MemoryDisk,
    gpus: GpuReader,
    *,
    checks: Sequence[HealthCheck],
    clock: Clock,
    sources: Callable[[], Sequence[EventSource]] = tuple,
) -> Agent:
    return Agent(
        clock,
        agent.entropy,
        SimulatedLink(agent),
        gpus,
        SimulatedHost(clock, agent.entropy, agent.node, boot=boot_id),
        disk,
        identity=Identity(
            node=agent.node,
            token=agent.machine.request.token if agent.place is None else None,
            boot_id=boot_id,
            place=agent.place,
            labels=agent.labels,
            image=agent.image,
        ),
        checks=checks,
        offload=InlineOffload(),
        probe_offload=InlineOffload(),
        sources=sources,
        on_terminate=agent.on_terminate,
        prober=agent.prober,
    )


@dataclass(frozen=True, slots=True)
class InjectedFaults:
    """A health check that finds the faults of a simulated machine."""

    agent: SimAgent
    boot_id: str
    name: str = "injected"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Yield what the machine's checks would find."""
        del view
        if self.agent.boot_id != self.boot_id:
            return  # The machine went down before the check could run.
        results = self.agent.results
        results.setdefault(BOOT, CheckResult(check=BOOT, health=Health.HEALTHY))
        for check, result in list(results.items()):
            yield result
            if result.lasting and result.health is Health.HEALTHY:
                del results[check]  # An event that has passed is found once.
        if self.agent.work is not None and (facts := self.agent.work()):
            yield CheckResult(check="work", health=Health.HEALTHY, facts=facts)


class InjectedGpus(SimulatedGpus):
    """The GPUs of a simulated machine, with its driver and its load."""

    def __init__(self, agent: SimAgent) -> None:
        super().__init__(
            agent.clock,
            agent.entropy,
            count=agent.gpus,
            seed=agent.machine.id,
            model=agent.gpu_type,
        )
        self._agent = agent

    def list_gpus(self) -> Sequence[Gpu]:
        """Return the GPUs with the machine's driver."""
        return [evolve(gpu, driver_version=self._agent.driver) for gpu in super().list_gpus()]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the load of a GPU."""
        del gpu
        load = self._agent.load
        return GpuMetrics(utilization_pct=0.0 if load is None else load())


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """The clock of a simulated machine, which may be wrong."""

    agent: SimAgent

    def now(self) -> datetime:
        """Return the date as the machine has it."""
        return self.agent.clock.now() + timedelta(seconds=self.agent.skew_s)

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self.agent.clock.monotonic()

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let virtual time pass."""
        return self.agent.clock.sleep(seconds)


class SimulatedLink:
    """The link of a product agent to the control plane, over the scenario's network."""

    def __init__(self, agent: SimAgent) -> None:
        self._agent = agent

    async def register(self, registration: Registration) -> Welcome:
        """Register the machine."""
        return await self._send(lambda api: api.register(registration))

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat."""
        del sequence
        send = self._agent.send_heartbeat
        return await self._send(lambda api: beat(api, node, metrics), send)

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Report what the checks found."""
        return await self._send(lambda api: api.report_health(node, report))

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Send earlier readings."""
        await self._send(lambda api: api.report_metrics(node, samples))

    async def report_evidence(self, evidence: Evidence) -> None:
        """Drop it: the simulator stores no evidence."""

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge a command."""
        await self._send(lambda api: api.acknowledge(node, command))

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the result of a command."""
        await self._send(lambda api: api.finish(node, command, succeeded=succeeded, result=result))

    async def close(self) -> None:
        """Do nothing."""

    async def _send(
        self,
        request: Callable[[AgentApi | Link], Awaitable[T]],
        send: Callable[[Callable[[], Awaitable[T]]], Awaitable[T]] | None = None,
    ) -> T:
        if self._agent.hung:
            raise UnreachableError("the machine hangs")
        try:
            return await (send or self._agent.send)(lambda: request(self._agent.api()))
        except Crash as crash:
            raise UnreachableError(f"the control plane died while it answered: {crash}") from crash
