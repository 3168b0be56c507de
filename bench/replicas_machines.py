"""The machines of the local EC2: each runs the agent, which reports to any replica that answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from tests.support.ec2_server import Ec2Effect, Ec2Server

from navarch.agent.agent import Agent
from navarch.agent.replay import InlineOffload
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.transport import open_link
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.errors import NavarchError, UnreachableError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId, Token
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.ownership import NODE, POOL, TOKEN
from navarch.core.recovery import Command
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedFacts, SimulatedHost
from navarch.ports.agents import Link, Registration, Welcome

T = TypeVar("T")

LOOK_S = 0.3
BOOT_S = (0.3, 1.5)
ANSWER_S = 2.0
"""How long an agent waits for one replica: a tenth of what it would in production, as all times."""
GPUS = 8
FAULT_XID = 79


class AnyReplica:
    """A Link to several replicas: after a failure it uses the next one."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._links: list[Link] = [open_link(server) for server in servers]

    async def register(self, registration: Registration) -> Welcome:
        """Register the machine."""
        return await self._call(lambda link: link.register(registration))

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat."""
        return await self._call(lambda link: link.heartbeat(node, metrics, sequence=sequence))

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Send a health report."""
        return await self._call(lambda link: link.report_health(node, report))

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Send buffered metrics."""
        await self._call(lambda link: link.report_metrics(node, samples))

    async def report_evidence(self, evidence: Evidence) -> None:
        """Send an evidence bundle."""
        await self._call(lambda link: link.report_evidence(evidence))

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge a command."""
        await self._call(lambda link: link.acknowledge(node, command))

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the result of a command."""
        await self._call(
            lambda link: link.finish(node, command, succeeded=succeeded, result=result)
        )

    async def close(self) -> None:
        """Close the connections."""
        for link in self._links:
            await link.close()

    async def _call(self, send: Callable[[Link], Awaitable[T]]) -> T:
        error: Exception | None = None
        for _ in range(len(self._links)):
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await send(self._links[0])
            except (UnreachableError, TimeoutError) as failed:
                error = failed
                self._links.append(self._links.pop(0))
        raise UnreachableError(f"no replica answers: {error}")


class Machines:
    """Starts an agent on each machine of the cloud, and ends it with its machine."""

    def __init__(self, cloud: Ec2Server, servers: Sequence[str]) -> None:
        self._cloud = cloud
        self._servers = servers
        self._clock, self._entropy = SystemClock(), SystemEntropy()
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._agents: dict[NodeId, tuple[Agent, SimulatedGpus]] = {}
        self._watch: asyncio.Task[None] | None = None
        self.alive: dict[str, str] = {}
        """The pool of each machine that runs."""
        self.effects: list[Ec2Effect] = []
        self.broken: set[NodeId] = set()
        """The nodes whose machines have failed."""

    def start(self) -> None:
        """Watch the cloud from now on."""
        self._watch = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """End all agents."""
        tasks = [*self._lives.values(), *([self._watch] if self._watch is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def sound(self) -> list[NodeId]:
        """The nodes whose agents run on machines without a fault."""
        return sorted(self._agents.keys() - self.broken)

    def fail(self, node: NodeId) -> None:
        """Let a GPU of a machine fall off its bus."""
        self.broken.add(node)
        agent, gpus = self._agents[node]
        gpus.xid(FAULT_XID, index=0)
        agent.run_all_checks()

    async def look(self) -> None:
        """Read what the cloud holds now."""
        alive, self.effects = await asyncio.to_thread(self._cloud.state)
        tags = {
            machine: each.tags
            for each in self.effects
            if each.action == "RunInstances"
            for machine in each.machines
        }
        self.alive = {machine: tags[machine][POOL] for machine in alive if machine in tags}
        for machine in self.alive.keys() - self._lives.keys():
            life = self._live(machine, NodeId(tags[machine][NODE]), Token(tags[machine][TOKEN]))
            self._lives[machine] = asyncio.get_running_loop().create_task(life)
        for machine in self._lives.keys() - self.alive.keys():
            self._lives[machine].cancel()

    async def _look(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def _live(self, machine: str, node: NodeId, token: Token) -> None:
        await asyncio.sleep(self._entropy.uniform(*BOOT_S))
        gpus = SimulatedGpus(self._clock, self._entropy, count=GPUS, seed=machine)
        host = SimulatedHost(self._clock, self._entropy, node, boot=f"boot-{machine}")
        agent = Agent(
            self._clock,
            self._entropy,
            AnyReplica(self._servers),
            gpus,
            host,
            MemoryDisk(),
            identity=Identity(node=node, token=token, gpus_expected=GPUS),
            checks=standard_checks(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            on_terminate=lambda: None,
            facts=SimulatedFacts(host=host, log=gpus.kernel_log, bus=gpus.on_bus),
        )
        self._agents[node] = agent, gpus
        try:
            with suppress(NavarchError):
                await agent.run()
        finally:
            self._agents.pop(node, None)
