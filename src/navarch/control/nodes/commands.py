"""Commands to agents: expires those that are overdue. Agents poll for the others."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.command import Command, CommandStatus
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import CommandId
from navarch.core.records import evolve
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

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
