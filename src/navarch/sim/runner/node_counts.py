"""Numbers of nodes by status, updated with every commit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, NodeStatus, node_status
from navarch.ports.store import Committed
from navarch.sim.runner.outcome import Moment


@dataclass(slots=True)
class NodeCounter:
    """Counts registered nodes that are not gone, by their status."""

    by_status: Counter[NodeStatus] = field(default_factory=Counter)
    degraded: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each check has reported a node degraded or unhealthy."""
    on_unhealthy: Callable[[NodeId], None] = lambda _: None

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.by_status.values())

    def counts(self) -> Moment:
        """Return the numbers of nodes now."""
        return Moment(
            total=self.total,
            active=self.by_status[NodeStatus.ACTIVE],
            unhealthy=self.by_status[NodeStatus.UNHEALTHY],
            degraded=self.degraded,
            cordoned=self.by_status[NodeStatus.CORDONED],
            draining=self.by_status[NodeStatus.DRAINING],
        )

    def watch(self, committed: Committed) -> None:
        """Take one commit into account."""
        for before, node in committed.moved:
            if before is not None:
                self._count(before, -1)
            self._count(node, 1)
            if before is None or before.conditions is not node.conditions:
                known = {(c.check, c.health) for c in before.conditions} if before else set()
                for condition in node.conditions:
                    if (condition.check, condition.health) not in known:
                        kind = condition.check.rpartition("/")[0] or condition.check
                        self.rules[kind, str(condition.health)] += 1
            was_unhealthy = before is not None and before.health is Health.UNHEALTHY
            if node.health is Health.UNHEALTHY and not node.gone and not was_unhealthy:
                self.on_unhealthy(node.id)

    def _count(self, node: Node, change: int) -> None:
        status = None if node.gone else node_status(node)
        if status is not None:
            self.by_status[status] += change
            if node.health is Health.DEGRADED:
                self.degraded += change
