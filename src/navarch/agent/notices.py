"""Passing on what the provider announces to the machine."""

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from navarch.agent.check_runner import Looks
from navarch.agent.connection import Contact
from navarch.agent.signals import Bells
from navarch.core.notice import Notice
from navarch.health.checks.notices import judge_notices
from navarch.ports.metadata import NoticeWatch

log = structlog.get_logger(__name__)

AGAIN_S = 60.0
"""How often a notice that stands is told again: whoever was told may have forgotten."""


class Notices:
    """Tells the control plane of notices at once, past every check and every driver."""

    def __init__(self, watch: NoticeWatch, *, looks: Looks, contact: Contact, bells: Bells) -> None:
        self._watch = watch
        self._looks = looks
        self._contact = contact
        self._bells = bells
        self._told: Sequence[Notice] = ()

    async def run(self) -> None:
        """Follow the watch until stopped."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            # A thread that was waiting for an answer may outlive the loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._bells.notices.ring)

        self._watch.start(on_change)
        try:
            while not self._bells.stopping:
                pause = AGAIN_S if await self._tell() else None
                await self._bells.notices.wait(pause)
        finally:
            self._watch.stop()

    async def _tell(self) -> bool:
        """Say what stands; return whether anything does."""
        notices = self._watch.notices()
        if notices is None:
            return False
        if notices != self._told:
            words = [f"{notice.kind}: {notice.reason}" for notice in notices]
            log.warning("agent.notice", node=self._contact.node, notices=words)
        self._told = notices
        await self._looks.tell(judge_notices(notices))
        return bool(notices)
