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
class Order:
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
        self._orders = {order.command.id: order for order in _load(disk.read(FILE))}

    def resume(self, now: datetime) -> None:
        """Give up what expired while the agent was away.

        Only here is the machine's own clock asked: what the control plane delivers has not
        expired by its clock, which is the one that counts.
        """
        for order in self.to_carry_out():
            if order.command.expires_at <= now:
                self.carried_out(
                    order.command.id, succeeded=False, result="it expired while the agent was away"
                )

    def receive(self, commands: Sequence[Command], now: datetime) -> bool:
        """Write down what is new; return whether anything is."""
        new = [command for command in commands if command.id not in self._orders]
        for command in new:
            self._orders[command.id] = Order(command=command, received_at=now)
        if new:
            self._forget_old(now)
            self._save()
        return bool(new)

    def to_acknowledge(self) -> list[Order]:
        """Return what the control plane does not know we have."""
        return [o for o in self._orders.values() if not (o.acknowledged or o.told)]

    def to_carry_out(self) -> list[Order]:
        """Return what is still to be done, oldest first."""
        return [o for o in self._orders.values() if o.succeeded is None and not o.told]

    def to_tell(self) -> list[Order]:
        """Return what the control plane does not know the end of."""
        return [o for o in self._orders.values() if o.succeeded is not None and not o.told]

    def acknowledged(self, command: CommandId) -> None:
        """Note that the control plane knows we have it. Not worth a write: it can be said again."""
        self._orders[command] = replace(self._orders[command], acknowledged=True)

    def carried_out(self, command: CommandId, *, succeeded: bool, result: str) -> None:
        """Write down how a command ended."""
        order = self._orders[command]
        self._orders[command] = replace(order, succeeded=succeeded, result=result)
        self._save()

    def told(self, command: CommandId) -> None:
        """Write down that the control plane knows how a command ended."""
        self._orders[command] = replace(self._orders[command], told=True)
        self._save()

    def _forget_old(self, now: datetime) -> None:
        over = [
            order.command.id
            for order in self._orders.values()
            if order.told and now - order.received_at > REMEMBERED_FOR
        ]
        for command in over:
            del self._orders[command]
        while len(self._orders) > REMEMBERED_MAX:
            del self._orders[next(iter(self._orders))]

    def _save(self) -> None:
        self._disk.replace(FILE, msgspec.json.encode(list(self._orders.values())), sync=True)


def _load(raw: bytes | None) -> list[Order]:
    try:
        return msgspec.json.decode(raw or b"[]", type=list[Order])
    except msgspec.DecodeError:
        return []
