"""An environment with a real control plane, reached over the real link."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from navarch.agent.transport import LINKS, open_link
from navarch.core.errors import UnreachableError
from navarch.core.ids import InstanceId, NodeId
from navarch.ports.agents import AgentApi
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock, Entropy
from navarch.ports.link import Link
from navarch.providers.simulated import Machine
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.runner.answers import ReplyTimes
from navarch.sim.world.agent import SimAgent

T = TypeVar("T")

REPLY_POLL_S = 0.05


@dataclass(slots=True)
class ScaledClock:
    """Real time, in which pauses are shorter by a factor. The date is the real one."""

    clock: Clock
    scale: float = 1.0

    def now(self) -> datetime:
        """Return the date."""
        return self.clock.now()

    def monotonic(self) -> float:
        """Return scenario seconds."""
        return self.clock.monotonic() * self.scale

    async def sleep(self, seconds: float) -> None:
        """Let scenario seconds pass."""
        await self.clock.sleep(seconds / self.scale)


@dataclass(slots=True, kw_only=True)
class WireEnvironment:
    """Agents that use a server elsewhere, each with its own connection."""

    clock: ScaledClock
    server: str
    token: str | None
    api: FleetApi
    tasks: asyncio.TaskGroup
    seed: int
    on_up: Callable[[SimAgent], None] = lambda _: None
    partitioned: set[NodeId] = field(default_factory=set)
    links: dict[NodeId, Link] = field(default_factory=dict)
    agents: list[SimAgent] = field(default_factory=list)
    reply_times: ReplyTimes = field(default_factory=ReplyTimes)
    _lives: dict[InstanceId, asyncio.Task[None]] = field(default_factory=dict)

    def entropy(self, purpose: str) -> Entropy:
        """Return a random source for one purpose, derived from the seed."""
        return SeededEntropy(f"{self.seed}/{purpose}")

    def api_for(self, node: NodeId) -> Callable[[], AgentApi | Link]:
        """Return how `node` reaches the server."""
        links = {**LINKS, "grpc": _grpc_link}
        link = open_link(self.server, token=lambda: self.token, links=links)
        self.links[node] = link

        def api() -> Link:
            if node in self.partitioned:
                raise UnreachableError("no route to the control plane")
            return link

        return api

    def run_agent(self, agent: SimAgent, *, after_s: float = 0.0) -> None:
        """Run an agent once its machine is up."""
        agent.clock = self.clock.clock  # Its messages carry real time.
        agent.follows_server = True
        self.agents.append(agent)

        def on_reply(sent: float) -> None:
            answered = self.clock.clock.monotonic()
            self.reply_times.replied(agent.node, sent=sent, answered=answered)

        agent.on_reply = on_reply

        async def live() -> None:
            await self.clock.sleep(after_s)
            self.on_up(agent)
            await agent.run()

        self._lives[agent.machine.id] = self.tasks.create_task(live())

    def stop_agent(self, machine: Machine) -> None:
        """End an agent."""
        life = self._lives.pop(machine.id, None)
        if life is not None:
            life.cancel()

    async def await_replies(self) -> None:
        """Stop all agents from sending, and wait until every heartbeat under way has ended.

        Each ends by itself: the link gives up on a server that does not answer.
        """
        for agent in self.agents:
            agent.hung = True
        while any(agent.awaiting_reply for agent in self.agents):
            await self.clock.clock.sleep(REPLY_POLL_S)

    async def ask(self, request: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Make an operator's request."""
        return await request(self.api)

    async def close(self) -> None:
        """End every agent and its connection."""
        for life in self._lives.values():
            life.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)
        for link in self.links.values():
            await link.close()


def _grpc_link(server: str, token: Callable[[], str | None]) -> Link:
    from navarch.client.grpc_link import grpc_link

    return grpc_link(server, token)
