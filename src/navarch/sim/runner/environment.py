"""The environment of a simulated fleet: a control plane, in virtual time or over a network."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from navarch.core.ids import NodeId
from navarch.ports.agents import AgentApi
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock, Entropy
from navarch.ports.link import Link
from navarch.providers.simulated import Machine
from navarch.sim.world.agent import SimAgent

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
