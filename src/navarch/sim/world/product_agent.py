"""A machine that lives through a recording: the real agent on it, in the scenario's time."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from navarch.agent.agent import Agent
from navarch.agent.event_sources import EventSources
from navarch.agent.recording import Recording
from navarch.agent.replay import InlineOffload, NullBookmark, ReplayedGpus, ReplayedKernelLog
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.command import Command
from navarch.core.errors import UnreachableError
from navarch.core.evidence import Evidence
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import AgentApi, Registration, Welcome
from navarch.ports.link import Link
from navarch.sim.world.leader import Crash
from navarch.sim.world.scenario_agent import ScenarioAgent

T = TypeVar("T")


async def live_through(recording: Recording, agent: ScenarioAgent) -> None:
    """Let the real agent read what was recorded, from now on, until cancelled.

    When the recording is over, the machine stays as it was last.
    """
    clock = agent.clock
    event_sources = EventSources(
        clock,
        ReplayedGpus(clock, recording),
        [ReplayedKernelLog(clock, recording)],
        bookmark=NullBookmark(),
        boot_id=recording.boot_id,
    )
    real = Agent(
        clock,
        agent.entropy,
        SimulatedLink(agent),
        event_sources,
        SimulatedHost(clock, agent.entropy, agent.node, boot=recording.boot_id),
        MemoryDisk(),
        identity=Identity(
            node=agent.node, boot_id=recording.boot_id, place=agent.place, labels=agent.labels
        ),
        checks=standard_checks(),
        offload=InlineOffload(),
        probe_offload=InlineOffload(),
        sources=event_sources.sources,
        on_terminate=agent.on_terminate,
    )
    await real.run()


class SimulatedLink:
    """The way of a real agent to the control plane, over the scenario's network."""

    def __init__(self, agent: ScenarioAgent) -> None:
        self._agent = agent

    async def register(self, registration: Registration) -> Welcome:
        """Introduce the machine."""
        return await self._send(lambda api: api.register(registration))

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Say that `node` is alive."""
        del sequence

        async def beat(api: AgentApi | Link) -> Sequence[Command]:
            answer = api.heartbeat(node, metrics)
            return await answer if inspect.isawaitable(answer) else answer

        if self._agent.hung:
            raise UnreachableError("a machine that hangs says nothing")
        try:
            return await self._agent.tell(lambda: beat(self._agent.api()))
        except Crash as crash:
            raise _unanswered(crash) from crash

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Say what the checks found."""
        return await self._send(lambda api: api.report_health(node, report))

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Hand over readings from before."""
        await self._send(lambda api: api.report_metrics(node, samples))

    async def report_evidence(self, evidence: Evidence) -> None:
        """Drop it: nobody keeps evidence here."""

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Say that a command has arrived."""
        await self._send(lambda api: api.acknowledge(node, command))

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Say what became of a command."""
        await self._send(lambda api: api.finish(node, command, succeeded=succeeded, result=result))

    async def close(self) -> None:
        """There is nothing to hang up."""

    async def _send(self, ask: Callable[[AgentApi | Link], Awaitable[T]]) -> T:
        try:
            return await self._agent.send(lambda: ask(self._agent.api()))
        except Crash as crash:
            raise _unanswered(crash) from crash


def _unanswered(crash: Crash) -> UnreachableError:
    return UnreachableError(f"the control plane died while it answered: {crash}")
