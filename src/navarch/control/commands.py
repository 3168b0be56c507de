"""The command reconciler: lets go of commands that nobody carried out in time."""

from datetime import datetime, timedelta

from navarch.control.agenda import Agenda
from navarch.core.command import Command, CommandStatus
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change
from navarch.core.ids import CommandId
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Matter, Store

KEEP = timedelta(hours=24)
"""How long a command that is over stays readable. The journal keeps its story for longer."""


class CommandReconciler:
    """Expires what is overdue and forgets what is long over. Delivery is the agents' asking."""

    name = "commands"

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self.agenda: Agenda[CommandId] = Agenda()
        for command in store.fleet().commands.values():
            self.agenda.wake(command.id, _due_at(command))
        store.subscribe(self._changed, about=[Matter.COMMANDS])

    async def reconcile(self) -> datetime | None:
        """Expire and forget what has come due."""
        now = self._clock.now()
        due = self.agenda.due(now)
        if due:
            fleet = self._store.fleet()
            known = [fleet.commands[name] for name in due if name in fleet.commands]
            late = [command for command in known if not command.over]
            change = Change(
                commands=[
                    evolve(command, status=CommandStatus.EXPIRED, ended_at=now) for command in late
                ],
                forget_commands=[command.id for command in known if command.over],
                events=[_expired(command, now) for command in late],
            )
            if not change.empty:
                await self._store.commit(change, based_on=fleet.revision)
            self.agenda.done(due)
        return self.agenda.next_at()

    def _changed(self, committed: Committed) -> None:
        for command in committed.change.commands:
            self.agenda.wake(command.id, _due_at(command))


def _due_at(command: Command) -> datetime:
    return (command.ended_at or command.issued_at) + KEEP if command.over else command.expires_at


def _expired(command: Command, now: datetime) -> Event:
    return Event(
        at=now,
        about=about("command", command.id),
        kind="command.expired",
        reason=f"{command.node} did not carry out {command.kind} by {command.expires_at:%H:%M:%S}",
        because=(about("node", command.node),),
    )
