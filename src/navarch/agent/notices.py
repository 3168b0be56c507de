"""Forwards the provider's notices, such as a preemption, to the control plane."""

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from navarch.agent.context import AgentContext
from navarch.core.instance import Notice
from navarch.health.checks.issues import judge_notices
from navarch.ports.host import NoticeWatch

log = structlog.get_logger(__name__)

REPEAT_S = 60.0
"""How often an active notice is reported again, in case the control plane lost it."""


class NoticeLoop:
    """Reports notices at once, without waiting for checks or drivers."""

    def __init__(self, context: AgentContext, watch: NoticeWatch) -> None:
        self._context = context
        self._watch = watch
        self._last_notices: Sequence[Notice] = ()

    async def run(self) -> None:
        """Report every change of the watch until stopped."""
        loop, signals = asyncio.get_running_loop(), self._context.signals

        def on_change() -> None:
            # The watch's thread may outlive the loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(signals.notices.set)

        self._watch.start(on_change)
        try:
            while not signals.stopping:
                pause = REPEAT_S if await self._report_notices() else None
                await signals.notices.sleep(pause)
        finally:
            self._watch.stop()

    async def _report_notices(self) -> bool:
        """Report the active notices; return whether there are any.

        The report does not wait for a round of checks, which a hung driver may block.
        """
        context, spool = self._context, self._context.spool
        notices = self._watch.notices()
        if notices is None:
            return False
        if notices != self._last_notices:
            descriptions = [f"{notice.kind}: {notice.reason}" for notice in notices]
            log.warning("agent.notice", node=context.connection.node, notices=descriptions)
        self._last_notices = notices
        await spool.try_run(spool.add_report, judge_notices(notices), at=context.clock.now())
        context.signals.uploads.set()
        return bool(notices)
