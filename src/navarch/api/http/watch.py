"""A watch over HTTP: lines of JSON, or server-sent events for browsers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, cast

import msgspec

from navarch.api.http.exchange import Receive, Request, Send
from navarch.core.errors import InvalidError
from navarch.ports.api import FleetApi, Update
from navarch.wire.fleet import code_of, text_of

EVENT_STREAM = b"text/event-stream"
NDJSON = b"application/x-ndjson"

FIRST_WORD_S = 0.5
"""The time for an error to become a status code. After that the reply has begun, and an error is
its last line."""
KEEP_ALIVE_S = 15.0
"""The interval of empty lines, which keep the connection and the proxies on its way open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchQuery:
    """The revision to start from."""

    after_revision: Annotated[int, msgspec.Meta(ge=0)] | None = None


async def stream_updates(
    fleet: FleetApi, request: Request, receive: Receive, send: Send, closing: asyncio.Event
) -> None:
    """Send every revision until the client leaves or the server closes.

    Immediate errors are raised.
    """
    updates = fleet.watch(after_revision=_start(request))
    form = _Events() if EVENT_STREAM in request.headers.get(b"accept", b"") else _Lines()
    stream = _Stream(updates, form, send)
    # Closed at once when the client leaves, so that the store stops sending updates.
    async with aclosing(cast("AsyncGenerator[Update, None]", updates)):
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(stream.follow())
            ends = [tasks.create_task(_left(receive)), tasks.create_task(closing.wait())]
            await asyncio.wait({following, *ends}, return_when=asyncio.FIRST_COMPLETED)
            for task in (following, *ends):
                task.cancel()
        await stream.end()


def _start(request: Request) -> int | None:
    # A browser that reconnects sends the last id it received, and the same URL as before.
    seen = request.headers.get(b"last-event-id")
    if seen is None:
        return request.query(WatchQuery).after_revision
    if not seen.isdigit() or len(seen) > 15:
        raise InvalidError("Last-Event-ID must be a revision")
    return int(seen)


class _Lines:
    content_type = NDJSON
    pause = b"\n"

    def update(self, update: Update) -> bytes:
        return msgspec.json.encode(update) + b"\n"

    def refusal(self, code: str, message: str) -> bytes:
        return msgspec.json.encode({"error": {"code": code, "message": message}}) + b"\n"


class _Events:
    content_type = EVENT_STREAM
    pause = b": still here\n\n"

    def update(self, update: Update) -> bytes:
        return b"id: %d\ndata: %s\n\n" % (update.revision, msgspec.json.encode(update))

    def refusal(self, code: str, message: str) -> bytes:
        text = msgspec.json.encode({"code": code, "message": message})
        return b"event: error\ndata: %s\n\n" % text


class _Stream:
    """One streamed reply."""

    def __init__(self, updates: AsyncIterator[Update], form: _Lines | _Events, send: Send) -> None:
        self._updates = updates
        self._form = form
        self._send = send
        self._begun = False

    async def follow(self) -> None:
        """Write updates as they arrive, and keep-alives in between."""
        wait_s = FIRST_WORD_S
        async with asyncio.TaskGroup() as tasks:
            while True:
                coming = tasks.create_task(_next(self._updates))
                while not (await asyncio.wait({coming}, timeout=wait_s))[0]:
                    await self._write(self._form.pause)
                    wait_s = KEEP_ALIVE_S
                outcome = coming.result()
                if isinstance(outcome, Exception):
                    break
                await self._write(self._form.update(outcome))
        if isinstance(outcome, StopAsyncIteration):
            return
        if not self._begun:
            raise outcome
        code = code_of(outcome)
        await self._write(self._form.refusal(code.name, text_of(outcome, code)))

    async def end(self) -> None:
        """Complete the reply; do nothing if the client has left."""
        if not self._begun:
            await self._write(b"")
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, chunk: bytes) -> None:
        if not self._begun:
            headers = [(b"content-type", self._form.content_type), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self._begun = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _next(updates: AsyncIterator[Update]) -> Update | Exception:
    """Return the next update or the error: a task that raises would end its group."""
    try:
        return await anext(updates)
    except Exception as error:  # noqa: BLE001 - raised again by the caller, who knows where to
        return error


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
