"""Runs commands from the control plane once each, and reports their results until accepted."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.connection import Backoff
from navarch.agent.context import AgentContext
from navarch.agent.spool.command_journal import CommandRecord
from navarch.core.errors import NavarchError, UnreachableError
from navarch.core.ids import CommandId
from navarch.core.recovery import Command, CommandKind

log = structlog.get_logger(__name__)

LONG_RUNNING = frozenset({CommandKind.RUN_DIAGNOSTIC})
"""Commands that may take an hour; others, such as DRAIN, run beside them."""

Handler = Callable[[Command], Awaitable[str]]
"""Runs a command and returns the result for the operator; raises NavarchError on failure."""


class CommandLoop:
    """Acknowledges commands, runs them, and reports their results."""

    def __init__(
        self,
        context: AgentContext,
        check_runner: CheckRunner,
        *,
        on_terminate: Callable[[], None],
        handlers: Mapping[CommandKind, Handler],
    ) -> None:
        self._context = context
        self._check_runner = check_runner
        self._on_terminate = on_terminate
        self._terminating = False
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[CommandId, asyncio.Task[None]] = {}
        self._handlers: dict[CommandKind, Handler] = {
            CommandKind.CORDON: self._cordon,
            CommandKind.UNCORDON: self._uncordon,
            CommandKind.DRAIN: self._drain,
            CommandKind.TERMINATE: self._terminate,
            **handlers,
        }

    async def run(self) -> None:
        """Run commands as they arrive, until stopped.

        A stop cancels long commands; the next start of the agent runs them again.
        """
        signals = self._context.signals
        backoff = Backoff(self._context.entropy)
        async with asyncio.TaskGroup() as self._tasks:
            while not signals.stopping:
                pause = None
                try:
                    await self._run_new_commands()
                    await self.report_results()
                    backoff.failures = 0
                except UnreachableError:
                    pause = backoff.next_s()
                if self._terminating:
                    # After one attempt to report: if it failed, the result is on disk.
                    self._terminating = False
                    self._on_terminate()
                await signals.commands.sleep(pause)
            for task in self._running.values():
                task.cancel()

    async def report_results(self) -> None:
        """Report the results that the control plane has not received yet."""
        connection, spool = self._context.connection, self._context.spool
        if not connection.registered:
            return
        for record in await spool.run(spool.journal.unreported):
            command = record.command.id
            if record.succeeded is None:
                continue
            try:
                await self._context.link.finish(
                    connection.node,
                    command,
                    succeeded=record.succeeded,
                    result=record.result,
                )
            except UnreachableError:
                raise
            except NavarchError as error:
                log.warning("agent.result_refused", command=command, error=str(error))
            await spool.try_run(spool.journal.reported, command)

    async def _run_new_commands(self) -> None:
        """Acknowledge the commands that arrived, then run those without a result."""
        spool = self._context.spool
        for record in await spool.run(spool.journal.unreported):
            command = record.command.id
            if record.acknowledged:
                continue
            try:
                await self._context.link.acknowledge(self._context.connection.node, command)
            except UnreachableError:
                continue  # Running the command does not depend on the acknowledgement.
            except NavarchError as error:
                log.debug("agent.not_acknowledged", command=command, error=str(error))
            await spool.run(spool.journal.acknowledged, command)
        # Read again: a long command may have finished meanwhile, and must not run twice.
        for record in await spool.run(spool.journal.unreported):
            if record.succeeded is not None:
                continue
            if record.command.kind not in LONG_RUNNING:
                await self._run_command(record)
            elif record.command.id not in self._running:
                self._start_long_command(record)

    def _start_long_command(self, record: CommandRecord) -> None:
        """Run a command beside others; its result is reported when it completes."""
        command = record.command.id

        def done(_task: "asyncio.Task[None]") -> None:
            del self._running[command]
            self._context.signals.commands.set()

        assert self._tasks is not None, "called before run()"
        task = self._tasks.create_task(self._run_command(record), name=f"command {command}")
        self._running[command] = task
        task.add_done_callback(done)

    async def _run_command(self, record: CommandRecord) -> None:
        command, node, spool = record.command, self._context.connection.node, self._context.spool
        try:
            result, succeeded = await self._handlers[command.kind](command), True
        except NavarchError as error:
            result, succeeded = str(error), False
        except Exception as error:
            # Without a result, the command would run and fail again after every restart.
            log.exception("agent.handler_broken", node=node, kind=command.kind)
            result, succeeded = f"the agent failed to run it: {error!r}", False
        log.info("agent.obeyed", node=node, kind=command.kind, succeeded=succeeded, result=result)
        await spool.try_run(spool.journal.finished, command.id, succeeded=succeeded, result=result)

    async def _cordon(self, _command: Command) -> str:
        return "noted; the control plane keeps new work away"

    async def _uncordon(self, _command: Command) -> str:
        await self._context.spool.run(self._context.spool.clear_findings)
        return "noted; earlier findings are cleared"

    async def _drain(self, _command: Command) -> str:
        return "noted; the control plane moves the work elsewhere"

    async def _terminate(self, _command: Command) -> str:
        await self._check_runner.collect_evidence("before the machine is given back")
        self._terminating = True
        return "the agent stops; the control plane terminates the machine"
