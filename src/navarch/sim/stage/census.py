"""How many nodes stand how, kept up to date with every commit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, NodeStatus, node_status
from navarch.ports.store import Committed


@dataclass(slots=True)
class Census:
    """Counts registered nodes that are not gone, by the words operators see."""

    by_status: Counter[str] = field(default_factory=Counter)
    degraded: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each check has called a node degraded or unhealthy."""
    on_unhealthy: list[Callable[[NodeId], None]] = field(default_factory=list)
    on_change: list[Callable[[], None]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.by_status.values())

    def watch(self, committed: Committed) -> None:
        """Take one commit into account."""
        moved = False
        for before, node in committed.moved:
            self._count(before, -1)
            self._count(node, 1)
            if before is None or before.conditions is not node.conditions:
                self._note_rules(before, node)
            moved = moved or before is None or before.serving is not node.serving
            well_before = before is None or before.health is not Health.UNHEALTHY
            if node.health is Health.UNHEALTHY and well_before and not node.gone:
                for listener in self.on_unhealthy:
                    listener(node.id)
        if moved:
            for changed in self.on_change:
                changed()

    def _count(self, node: Node | None, by: int) -> None:
        status = node_status(node) if node is not None else None
        if node is None or status is None or status is NodeStatus.TERMINATED:
            return
        self.by_status[str(status)] += by
        self.degraded += by * (node.health is Health.DEGRADED)

    def _note_rules(self, before: Node | None, node: Node) -> None:
        known = {(c.check, c.health) for c in before.conditions} if before is not None else set()
        for condition in node.conditions:
            if (condition.check, condition.health) not in known:
                kind = condition.check.rpartition("/")[0] or condition.check
                self.rules[kind, str(condition.health)] += 1
