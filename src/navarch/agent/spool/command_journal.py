"""Commands on their way: each is carried out once, however often it is delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from navarch.agent.spool.disk import Disk
from navarch.core.command import Command
from navarch.core.ids import CommandId

FILE = "commands.json"
REMEMBERED_FOR = timedelta(hours=24)
REMEMBERED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """A command and how far we have come with it."""

    command: Command
    received_at: datetime
    acknowledged: bool = False
    succeeded: bool | None = None
    """None until it has been carried out."""
    result: str = ""
    told: bool = False
    """Whether the control plane knows how it ended, or does not care."""


class CommandJournal:
    """Remembers commands across restarts.

    A command is written down before it is acknowledged, because the control plane does not
    send it again after that; and its outcome before it is told, because it must not be carried
    out again after that. One that was begun when the agent died is begun again: all that can
    be asked of an agent may be done twice, as long as it is not done twice for no reason.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._records = {record.command.id: record for record in _load(disk.read(FILE))}

    def resume(self, now: datetime) -> None:
        """Give up what expired while the agent was away.

        Only here is the machine's own clock asked: what the control plane delivers has not
        expired by its clock, which is the one that counts.
        """
        for record in self.to_run():
            if record.command.expires_at <= now:
                self.finished(
                    record.command.id, succeeded=False, result="it expired while the agent was away"
                )

    def receive(self, commands: Sequence[Command], now: datetime) -> bool:
        """Write down what is new; return whether anything is."""
        new = [command for command in commands if command.id not in self._records]
        for command in new:
            self._records[command.id] = CommandRecord(command=command, received_at=now)
        if new:
            self._expire(now)
            self._save()
        return bool(new)

    def to_acknowledge(self) -> list[CommandRecord]:
        """Return what the control plane does not know we have."""
        return [o for o in self._records.values() if not (o.acknowledged or o.told)]

    def to_run(self) -> list[CommandRecord]:
        """Return what is still to be done, oldest first."""
        return [o for o in self._records.values() if o.succeeded is None and not o.told]

    def to_report(self) -> list[CommandRecord]:
        """Return what the control plane does not know the end of."""
        return [o for o in self._records.values() if o.succeeded is not None and not o.told]

    def acknowledged(self, command: CommandId) -> None:
        """Note that the control plane knows we have it. Not worth a write: it can be said again."""
        self._records[command] = replace(self._records[command], acknowledged=True)

    def finished(self, command: CommandId, *, succeeded: bool, result: str) -> None:
        """Write down how a command ended."""
        record = self._records[command]
        self._records[command] = replace(record, succeeded=succeeded, result=result)
        self._save()

    def reported(self, command: CommandId) -> None:
        """Write down that the control plane knows how a command ended."""
        self._records[command] = replace(self._records[command], told=True)
        self._save()

    def _expire(self, now: datetime) -> None:
        over = [
            record.command.id
            for record in self._records.values()
            if record.told and now - record.received_at > REMEMBERED_FOR
        ]
        for command in over:
            del self._records[command]
        while len(self._records) > REMEMBERED_MAX:
            del self._records[next(iter(self._records))]

    def _save(self) -> None:
        self._disk.replace(FILE, msgspec.json.encode(list(self._records.values())), sync=True)


def _load(raw: bytes | None) -> list[CommandRecord]:
    try:
        return msgspec.json.decode(raw or b"[]", type=list[CommandRecord])
    except msgspec.DecodeError:
        return []
