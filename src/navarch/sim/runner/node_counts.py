"""Numbers of nodes by status, updated with every commit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, NodeStatus, node_status
from navarch.ports.store import Committed


@dataclass(slots=True)
class NodeCounter:
    """Counts registered nodes that are not gone, by their status."""

    by_status: Counter[NodeStatus] = field(default_factory=Counter)
    degraded: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each check has reported a node degraded or unhealthy."""
    on_unhealthy: list[Callable[[NodeId], None]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.by_status.values())

    def watch(self, committed: Committed) -> None:
        """Take one commit into account."""
        for before, node in committed.moved:
            self._count(before, node)
            if before is None or before.conditions is not node.conditions:
                self._note_rules(before, node)
            if node.health is Health.UNHEALTHY and not node.gone and _was_well(before):
                for listener in self.on_unhealthy:
                    listener(node.id)

    def _count(self, before: Node | None, node: Node) -> None:
        was = None if before is None else _counted_as(before)
        now = _counted_as(node)
        if was is not now:
            if was is not None:
                self.by_status[was] -= 1
            if now is not None:
                self.by_status[now] += 1
        if before is not None and was is not None and before.health is Health.DEGRADED:
            self.degraded -= 1
        if now is not None and node.health is Health.DEGRADED:
            self.degraded += 1

    def _note_rules(self, before: Node | None, node: Node) -> None:
        known = {(c.check, c.health) for c in before.conditions} if before is not None else set()
        for condition in node.conditions:
            if (condition.check, condition.health) not in known:
                kind = condition.check.rpartition("/")[0] or condition.check
                self.rules[kind, str(condition.health)] += 1


def _was_well(before: Node | None) -> bool:
    return before is None or before.health is not Health.UNHEALTHY


def _counted_as(node: Node) -> NodeStatus | None:
    return None if node.gone else node_status(node)
