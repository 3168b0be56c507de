"""The journal of received commands: each runs once, however often it is delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from navarch.agent.spool.disk import Disk
from navarch.core.ids import CommandId
from navarch.core.recovery import Command

FILE = "commands.json"
REMEMBERED_FOR = timedelta(hours=24)
REMEMBERED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """A command and its progress."""

    command: Command
    received_at: datetime
    acknowledged: bool = False
    succeeded: bool | None = None
    """None until the command has run."""
    result: str = ""
    told: bool = False
    """Whether the result was delivered or refused. The name is part of the file format."""


class CommandJournal:
    """Stores commands across restarts.

    A command is stored before it is acknowledged, because the control plane does not send it again
    afterwards. Its result is stored before it is reported, because it must not run again after
    that. A command that was interrupted by a crash runs again: every command may run twice.
    """

    def __init__(self, disk: Disk, now: datetime) -> None:
        self._disk = disk
        try:
            stored = msgspec.json.decode(disk.read(FILE) or b"[]", type=list[CommandRecord])
        except msgspec.DecodeError:
            stored = []
        self._records = {record.command.id: record for record in stored}
        # This is the only use of the machine's clock. Commands that the control plane delivers have
        # not expired by the control plane's clock, which is authoritative.
        for record in self.unreported():
            if record.succeeded is None and record.command.expires_at <= now:
                self.finished(
                    record.command.id,
                    succeeded=False,
                    result="it expired while the agent was not running",
                )

    def receive(self, commands: Sequence[Command], now: datetime) -> None:
        """Store new commands, and delete old ones."""
        new = [command for command in commands if command.id not in self._records]
        for command in new:
            self._records[command.id] = CommandRecord(command=command, received_at=now)
        if new:
            self._records = {
                command: record
                for command, record in self._records.items()
                if not record.told or now - record.received_at <= REMEMBERED_FOR
            }
            while len(self._records) > REMEMBERED_MAX:
                del self._records[next(iter(self._records))]
            self._save()

    def unreported(self) -> list[CommandRecord]:
        """Return the commands without a delivered result, oldest first."""
        return [record for record in self._records.values() if not record.told]

    def acknowledged(self, command: CommandId) -> None:
        """Mark a command as acknowledged. Not written to disk: acknowledging twice is harmless."""
        self._records[command] = replace(self._records[command], acknowledged=True)

    def finished(self, command: CommandId, *, succeeded: bool, result: str) -> None:
        """Store the result of a command."""
        record = self._records[command]
        self._records[command] = replace(record, succeeded=succeeded, result=result)
        self._save()

    def reported(self, command: CommandId) -> None:
        """Store that the result of a command was reported."""
        self._records[command] = replace(self._records[command], told=True)
        self._save()

    def _save(self) -> None:
        self._disk.replace(FILE, msgspec.json.encode(list(self._records.values())), sync=True)
