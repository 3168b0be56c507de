"""A scrape of the metrics: a reply in slices, between which heartbeats are received."""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from navarch.api.http.exchange import Refusal, Send
from navarch.api.metrics import CONTENT_TYPE
from navarch.core.limits import SCRAPES
from navarch.ports.clock import Clock

SCRAPES_MAX = SCRAPES.most
"""They need no token, and a large one takes half a second of CPU time; a heartbeat waits at most
for one slice of each."""

PART_BYTES = 2**15
"""Slices are sent together up to this size: most of them are a few lines."""

log = structlog.get_logger(__name__)


class Scrapes:
    """Sends metrics, a slice at a time."""

    def __init__(
        self, clock: Clock, metrics: Callable[[], Iterator[bytes]], *, within_s: float
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._within_s = within_s
        self._running = 0

    async def send(self, send: Send, *, head_only: bool) -> None:
        """Send the reply; a reader that takes too long gets an incomplete one."""
        if self._running >= SCRAPES_MAX:
            raise Refusal(503, "unavailable", f"{SCRAPES_MAX} scrapes are running; try again")
        self._running += 1
        reply = _Reply(self._clock, send)
        try:
            async with asyncio.timeout(self._within_s):
                await reply.write(iter(()) if head_only else self._metrics())
        except Exception as error:
            if not reply.begun:
                raise
            # The server closes the connection, so that the client discards the part it has.
            log.warning("http.scrape_ended", exc_info=error)
        finally:
            self._running -= 1


class _Reply:
    def __init__(self, clock: Clock, send: Send) -> None:
        self._clock = clock
        self._send = send
        self.begun = False

    async def write(self, slices: Iterator[bytes]) -> None:
        pending = bytearray()
        for each in slices:
            pending += each
            if len(pending) >= PART_BYTES:
                await self._write(bytes(pending))
                pending.clear()
            await self._clock.sleep(0)
        await self._write(bytes(pending), more=False)

    async def _write(self, body: bytes, *, more: bool = True) -> None:
        if not self.begun:
            self.begun = True
            headers = [(b"content-type", CONTENT_TYPE)]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
