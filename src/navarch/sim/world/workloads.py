"""A workload system that exists only here: jobs on nodes, which take their time to leave."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.core.errors import NotifierError
from navarch.core.ids import NodeId
from navarch.ports.clock import Clock, Entropy


@dataclass(slots=True)
class SimWorkloads:
    """Records every call, and drains each node after a random time."""

    clock: Clock
    entropy: Entropy
    error_rate: float = 0.0
    drain_s: tuple[float, float] = (0.0, 120.0)
    name: str = "sim-workloads"
    cordoned: dict[NodeId, str] = field(default_factory=dict)
    empty_at: dict[NodeId, datetime] = field(default_factory=dict)
    calls: list[tuple[str, NodeId]] = field(default_factory=list)

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start nothing new on `node`."""
        await self._call("cordon", node)
        self.cordoned[node] = reason

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        await self._call("uncordon", node)
        self.cordoned.pop(node, None)
        self.empty_at.pop(node, None)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""
        await self._call("drain", node)
        self.cordoned[node] = reason
        pause = timedelta(seconds=self.entropy.uniform(*self.drain_s))
        self.empty_at.setdefault(node, self.clock.now() + pause)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node`."""
        await self._call("is_drained", node)
        empty_at = self.empty_at.get(node)
        return empty_at is not None and empty_at <= self.clock.now()

    async def _call(self, what: str, node: NodeId) -> None:
        await self.clock.sleep(self.entropy.uniform(0.01, 0.5))
        if self.entropy.uniform(0, 1) < self.error_rate:
            raise NotifierError("the workload system is busy")
        self.calls.append((what, node))
