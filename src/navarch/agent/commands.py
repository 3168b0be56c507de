"""Commands: taken, carried out once, and told about until it is known."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from navarch.agent.check_runner import Looks
from navarch.agent.connection import Backoff, Contact
from navarch.agent.signals import Bells
from navarch.agent.spool import Memory, Recall
from navarch.agent.spool.command_journal import Order
from navarch.core.command import Command, CommandKind
from navarch.core.errors import NavarchError, UnreachableError
from navarch.core.ids import CommandId
from navarch.ports.clock import Entropy
from navarch.ports.link import Link

log = structlog.get_logger(__name__)

LONG = frozenset({CommandKind.RUN_DIAGNOSTIC})
"""What may take an hour, and must not keep the node from being drained or ended meanwhile."""

Handler = Callable[[Command], Awaitable[str]]
"""Carries a command out and returns what to tell the operator; raises NavarchError if it cannot."""


class Orders:
    """Does what the control plane asks."""

    def __init__(
        self,
        entropy: Entropy,
        link: Link,
        *,
        contact: Contact,
        recall: Recall,
        bells: Bells,
        looks: Looks,
        on_terminate: Callable[[], None],
        handlers: Mapping[CommandKind, Handler],
    ) -> None:
        self._entropy = entropy
        self._link = link
        self._contact = contact
        self._recall = recall
        self._bells = bells
        self._looks = looks
        self._on_terminate = on_terminate
        self._terminating = False
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: dict[CommandId, asyncio.Task[None]] = {}
        self._handlers: dict[CommandKind, Handler] = {
            CommandKind.CORDON: self._cordon,
            CommandKind.UNCORDON: self._uncordon,
            CommandKind.DRAIN: self._drain,
            CommandKind.TERMINATE: self._terminate,
            **handlers,
        }

    async def run(self) -> None:
        """Carry out what arrives, until stopped.

        What is under way then, and takes long, is given up; it is begun again after a start.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await self._run()
            for task in self._under_way.values():
                task.cancel()

    async def _run(self) -> None:
        backoff = Backoff(self._entropy)
        while not self._bells.stopping:
            pause = None
            try:
                await self._acknowledge_all()
                await self._carry_out_all()
                await self.tell()
                backoff.reset()
            except UnreachableError:
                pause = backoff.next_s()
            if self._terminating:
                # After the one attempt to tell: the outcome is on disk, should it have failed.
                self._terminating = False
                self._on_terminate()
            await self._bells.orders.wait(pause)

    async def tell(self) -> None:
        """Say how commands ended, where the control plane does not know it yet."""
        if not self._contact.registered:
            return
        for order in await self._recall.ask(lambda memory: memory.journal.to_tell()):
            await self._tell(order)

    async def _tell(self, order: Order) -> None:
        command = order.command.id
        try:
            await self._link.finish(
                self._contact.node, command, succeeded=bool(order.succeeded), result=order.result
            )
        except UnreachableError:
            raise
        except NavarchError as error:
            log.warning("agent.result_refused", command=command, error=str(error))
        await self._recall.note(lambda memory: memory.journal.told(command))

    async def _acknowledge_all(self) -> None:
        for order in await self._recall.ask(lambda memory: memory.journal.to_acknowledge()):
            await self._acknowledge(order.command.id)

    async def _acknowledge(self, command: CommandId) -> None:
        try:
            await self._link.acknowledge(self._contact.node, command)
        except UnreachableError:
            return  # To carry it out is more than to acknowledge it, and need not wait.
        except NavarchError as error:
            log.debug("agent.not_acknowledged", command=command, error=str(error))
        await self._recall.ask(lambda memory: memory.journal.acknowledged(command))

    async def _carry_out_all(self) -> None:
        for order in await self._recall.ask(lambda memory: memory.journal.to_carry_out()):
            if order.command.kind in LONG:
                self._begin(order)
            else:
                await self._carry_out(order)

    def _begin(self, order: Order) -> None:
        """Carry a command out while others are carried out, and tell of it when it is done."""
        command = order.command.id
        if command in self._under_way:
            return

        def done(_task: "asyncio.Task[None]") -> None:
            del self._under_way[command]
            self._bells.orders.ring()

        assert self._tasks is not None, "begun before run()"
        task = self._tasks.create_task(self._carry_out(order), name=f"command {command}")
        self._under_way[command] = task
        task.add_done_callback(done)

    async def _carry_out(self, order: Order) -> None:
        command = order.command
        try:
            result, succeeded = await self._handlers[command.kind](command), True
        except NavarchError as error:
            result, succeeded = str(error), False
        except Exception as error:
            # Left unfinished, it would be tried, and would fail, after every restart.
            log.exception("agent.handler_broken", node=self._contact.node, kind=command.kind)
            result, succeeded = f"the agent failed at it: {error!r}", False
        log.info(
            "agent.obeyed",
            node=self._contact.node,
            kind=command.kind,
            succeeded=succeeded,
            result=result,
        )

        def carried_out(memory: Memory) -> None:
            memory.journal.carried_out(command.id, succeeded=succeeded, result=result)

        await self._recall.note(carried_out)

    async def _cordon(self, _command: Command) -> str:
        return "noted; the control plane keeps new work away"

    async def _uncordon(self, _command: Command) -> str:
        await self._recall.ask(lambda memory: memory.clear_findings())
        return "noted; what was found before is forgotten"

    async def _drain(self, _command: Command) -> str:
        return "noted; the control plane moves the work elsewhere"

    async def _terminate(self, _command: Command) -> str:
        await self._looks.take_evidence("before the machine is given back")
        self._terminating = True
        return "the agent ends; the control plane ends the machine"
