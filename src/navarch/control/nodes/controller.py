"""A controller of single nodes."""

from abc import abstractmethod
from collections.abc import MutableMapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.operations import Operation, OperationRunner
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import CommandId, NodeId
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.core.recovery import Command, CommandStatus
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


class NodeController(Controller):
    """Advances every node in one of `phases` for which `concerns` is true."""

    phases: frozenset[Phase]
    system = ""
    """The system that operations call, if it is the same for all nodes."""
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
        self,
        node: NodeId,
        key: str,
        operation: Operation,
        *,
        slow: bool = False,
        system: str = "",
    ) -> datetime | None:
        """Start an operation for `node`, which is looked at again when it is over.

        Return when to come back if one of that key has failed lately.
        """
        return self._operations.send(
            key,
            operation,
            slow=slow,
            system=system or self.system,
            then=partial(self.look_at, node),
        )

    def _needs_work(self, node: Node) -> bool:
        return node.phase in self.phases and self.concerns(node)


KEEP = timedelta(hours=24)
"""How long a command that is over can be listed. The journal keeps its history for longer."""


class CommandController(Controller):
    """Expires commands that are overdue and forgets those that are long over."""

    name = "commands"
    queue: WorkQueue[CommandId]

    def __init__(self, clock: Clock, store: Store) -> None:
        super().__init__(clock, store)
        for command in store.fleet().commands.values():
            self.queue.add_at(command.id, _due(command))

    def on_commit(self, committed: Committed) -> None:
        """Queue the commands that a commit wrote for the time when they are due."""
        for command in committed.change.commands:
            self.queue.add_at(command.id, _due(command))

    async def reconcile(self, keys: Sequence[CommandId]) -> None:
        """Expire and forget the commands that are due."""
        now, fleet = self._clock.now(), self._store.fleet()
        known = [fleet.commands[name] for name in keys if name in fleet.commands]
        late = [command for command in known if not command.over]
        events = [
            Event(
                at=now,
                about=about("command", command.id),
                kind="command.expired",
                reason=f"{command.node} did not carry out {command.kind} "
                f"by {command.expires_at:%H:%M:%S}",
                because=(about("node", command.node),),
            )
            for command in late
        ]
        change = Change(
            commands=[
                evolve(command, status=CommandStatus.EXPIRED, ended_at=now) for command in late
            ],
            forget_commands=[command.id for command in known if command.over],
            events=events,
        )
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)


def _due(command: Command) -> datetime:
    return (command.ended_at or command.issued_at) + KEEP if command.over else command.expires_at
