"""Passing on what the provider announces to the machine."""

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.connection import ConnectionState
from navarch.agent.signals import Signals
from navarch.core.notice import Notice
from navarch.health.checks.notices import judge_notices
from navarch.ports.metadata import NoticeWatch

log = structlog.get_logger(__name__)

REPEAT_S = 60.0
"""How often a notice that stands is told again: whoever was told may have forgotten."""


class NoticeLoop:
    """Tells the control plane of notices at once, past every check and every driver."""

    def __init__(
        self,
        watch: NoticeWatch,
        *,
        check_runner: CheckRunner,
        connection: ConnectionState,
        signals: Signals,
    ) -> None:
        self._watch = watch
        self._check_runner = check_runner
        self._connection = connection
        self._signals = signals
        self._last_notices: Sequence[Notice] = ()

    async def run(self) -> None:
        """Follow the watch until stopped."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            # A thread that was waiting for an answer may outlive the loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._signals.notices.set)

        self._watch.start(on_change)
        try:
            while not self._signals.stopping:
                pause = REPEAT_S if await self._report_notices() else None
                await self._signals.notices.wait(pause)
        finally:
            self._watch.stop()

    async def _report_notices(self) -> bool:
        """Say what stands; return whether anything does."""
        notices = self._watch.notices()
        if notices is None:
            return False
        if notices != self._last_notices:
            words = [f"{notice.kind}: {notice.reason}" for notice in notices]
            log.warning("agent.notice", node=self._connection.node, notices=words)
        self._last_notices = notices
        await self._check_runner.report_directly(judge_notices(notices))
        return bool(notices)
