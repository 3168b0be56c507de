"""The commands that agents have not finished."""

from collections.abc import Iterable, Sequence

from navarch.core.command import Command, CommandStatus
from navarch.core.fleet import Change
from navarch.core.ids import CommandId, NodeId


class OpenCommands:
    """Commands that are neither finished nor expired, by node."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self._by_node: dict[NodeId, dict[CommandId, Command]] = {}
        self.advance(Change(commands=tuple(commands)))

    def on_node(self, node: NodeId) -> Sequence[Command]:
        """Return the open commands of a node."""
        return list(self._by_node.get(node, {}).values())

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that the agent of a node has not received."""
        return [each for each in self.on_node(node) if each.status is CommandStatus.PENDING]

    def advance(self, change: Change) -> None:
        """Take a change into account."""
        for command in change.commands:
            commands = self._by_node.setdefault(command.node, {})
            if command.over:
                commands.pop(command.id, None)
            else:
                commands[command.id] = command
            if not commands:
                del self._by_node[command.node]
