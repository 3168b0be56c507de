"""The environment of a simulated fleet: a control plane, in virtual time or over a network."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from navarch.agent.transport import LINKS, open_link
from navarch.core.errors import UnreachableError
from navarch.core.ids import InstanceId, NodeId
from navarch.ports.agents import AgentApi, Link
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock, Entropy
from navarch.providers.simulated import Machine
from navarch.sim.figures.reactions import DurationStats, duration_stats
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.agent import SimAgent


@dataclass(slots=True)
class ReplyTimes:
    """The reply times of all heartbeats, and the longest gap between replies to one node."""

    silence_max_s: float = 0.0
    """The longest time between two replies to one node."""
    _took_s: "array[float]" = field(default_factory=lambda: array("d"))
    _last: dict[NodeId, float] = field(default_factory=dict)

    def replied(self, node: NodeId, *, sent: float, answered: float) -> None:
        """Record a reply; both times are from the same clock."""
        self._took_s.append(answered - sent)
        before = self._last.get(node)
        if before is not None:
            self.silence_max_s = max(self.silence_max_s, answered - before)
        self._last[node] = answered

    def stats(self) -> DurationStats:
        """Return the reply times."""
        return duration_stats(self._took_s)


T = TypeVar("T")


class Environment(Protocol):
    """The control plane and the network that agents use."""

    @property
    def clock(self) -> Clock:
        """Time as it passes there."""

    @property
    def partitioned(self) -> set[NodeId]:
        """Nodes that the network separates from the control plane."""

    def entropy(self, purpose: str) -> Entropy:
        """Return a random source for one purpose, derived from the seed."""

    def api_for(self, node: NodeId) -> Callable[[], AgentApi | Link]:
        """Return how `node` reaches the control plane."""

    def run_agent(self, agent: SimAgent, *, after_s: float = 0.0) -> None:
        """Run an agent once its machine is up."""

    def stop_agent(self, machine: Machine) -> None:
        """Stop the agent on a machine that the control plane did not buy."""

    async def ask(self, request: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Make an operator's request, until the control plane answers."""


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
