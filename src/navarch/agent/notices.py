"""Forwards the provider's notices, such as a preemption, to the control plane."""

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.connection import ConnectionState
from navarch.agent.signals import Signals
from navarch.core.instance import Notice
from navarch.health.checks.notices import judge_notices
from navarch.ports.metadata import NoticeWatch

log = structlog.get_logger(__name__)

REPEAT_S = 60.0
"""How often an active notice is reported again, in case the control plane lost it."""


class NoticeLoop:
    """Reports notices at once, without waiting for checks or drivers."""

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
        """Report every change of the watch until stopped."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            # The watch's thread may outlive the loop.
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
        """Report the active notices; return whether there are any."""
        notices = self._watch.notices()
        if notices is None:
            return False
        if notices != self._last_notices:
            descriptions = [f"{notice.kind}: {notice.reason}" for notice in notices]
            log.warning("agent.notice", node=self._connection.node, notices=descriptions)
        self._last_notices = notices
        await self._check_runner.report_directly(judge_notices(notices))
        return bool(notices)
