"""A controller of single nodes."""

from abc import abstractmethod
from collections.abc import MutableMapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.operations import Operation, OperationRunner
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


class NodeController(Controller):
    """Advances every node in one of `phases` for which `concerns` is true."""

    phases: frozenset[Phase]
    queue: WorkQueue[NodeId]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        operations: OperationRunner,
        *,
        memories: Sequence[MutableMapping[NodeId, Any]] = (),
    ) -> None:
        """`memories` hold what the controller remembers of each node until the node is gone."""
        assert Phase.GONE not in self.phases, "there is nothing to do for a node that is gone"
        super().__init__(clock, store)
        self._operations = operations
        self._memories = memories
        nodes = store.fleet().nodes.values()
        self.queue = WorkQueue([node.id for node in nodes if self._needs_work(node)])

    @abstractmethod
    def concerns(self, node: Node) -> bool:
        """Return whether there is something to do for a node in one of `phases`."""

    @abstractmethod
    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Take the next step for `node`; return when to look at it again if nothing changes."""

    def on_commit(self, committed: Committed) -> None:
        """Queue the nodes that a commit wrote and that need work."""
        for node in committed.change.nodes:
            if node.phase in self.phases:
                if self.concerns(node):
                    self.queue.add(node.id)
            elif node.gone:
                self.queue.drop_date(node.id)
                for memory in self._memories:
                    memory.pop(node.id, None)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Advance each node that still needs work."""
        now, nodes = self._clock.now(), self._store.fleet().nodes
        for name in keys:
            node = nodes.get(name)
            due = self.advance(node, now) if node and self._needs_work(node) else None
            self.queue.reschedule(name, due)

    def look_at(self, name: NodeId) -> None:
        """Queue a node if it still needs work."""
        node = self._store.fleet().nodes.get(name)
        if node is not None and self._needs_work(node):
            self.queue.add(name)
        else:
            self.queue.drop_date(name)

    def start(
        self, node: NodeId, key: str, operation: Operation, *, slow: bool = False
    ) -> datetime | None:
        """Start an operation for `node`, which is looked at again when it is over.

        Return when to come back if one of that key has failed lately.
        """
        return self._operations.send(key, operation, slow=slow, then=partial(self.look_at, node))

    def _needs_work(self, node: Node) -> bool:
        return node.phase in self.phases and self.concerns(node)
