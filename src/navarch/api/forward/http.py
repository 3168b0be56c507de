"""Forwards HTTP requests to the leader, whole and unchanged, and its replies as they arrive."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import cast

from navarch.api.connect.handler import HEARTBEAT
from navarch.api.connect.handler import PREFIX as CONNECT_PREFIX
from navarch.api.forward.leaders import (
    FORWARDED_TWICE,
    HOLD_S,
    UNKNOWN,
    Held,
    Leader,
    Leaders,
    NotForwardedError,
    UnansweredError,
)
from navarch.api.forward.link import LeaderLink, Response, Sent
from navarch.api.forward.origin import HEADER, Origin, Seal
from navarch.api.http.direct import RememberedHead
from navarch.api.http.exchange import (
    PEER_CERTIFICATE,
    BodyRoom,
    GoneError,
    Receive,
    Refusal,
    Reply,
    Scope,
    Send,
    check_host,
    error_reply,
    read_body,
    send_reply,
    target_of,
)
from navarch.api.http.watch import EVENT_STREAM, NDJSON
from navarch.api.logins import peer_name
from navarch.api.tls import certificate_of
from navarch.core.limits import REQUEST_BYTES
from navarch.wire.fleet import UNAVAILABLE

PROTOCOL = "http"
AGENT_PREFIX = b"/v1/agent/"
REPEATABLE_CALLS = frozenset(
    f"{CONNECT_PREFIX}{name}".encode()
    for name in (
        *(HEARTBEAT, "RegisterNode", "ReportHealth"),
        *("ListNodes", "GetNode", "ListInstances", "GetInstance"),
    )
)
"""The calls of the Go system that change nothing more when they are repeated. GetNodeCommands
acknowledges the commands that it returns."""
WHOLE_BYTES_MAX = 2**20
"""Larger replies are passed on as they arrive."""

_OF_A_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
"""Headers that concern one connection only (RFC 9110, 7.6.1)."""
_NOT_SENT = _OF_A_CONNECTION | {b"content-length", b"expect", HEADER}
_RETRY = ((b"retry-after", b"1"),)
NOT_LEADER = (b"navarch-not-leader", b"1")
"""The header of a reply to a forwarded request that was not carried out, because its receiver does
not lead: the replica that forwarded it sends it to another one."""

Probe = Callable[[Scope, Send], Awaitable[bool]]


class ForwardingApp:
    """The application of a replica that does not lead."""

    def __init__(
        self,
        leaders: Leaders,
        seal: Seal,
        link: LeaderLink,
        held: Held,
        *,
        probe: Probe,
        any_host: bool,
    ) -> None:
        """`probe` answers what concerns this process itself; `any_host` is False on loopback."""
        self._leaders = leaders
        self._seal = seal
        self._link = link
        self._held = held
        self._probe = probe
        self._any_host = any_host
        self._bodies = BodyRoom()
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """End the streamed replies."""
        if not self._closing.done():
            self._closing.set_result(None)

    def remember(self, data: bytes, scope: Scope) -> RememberedHead | None:  # noqa: ARG002
        """Return None: heartbeats are answered by the leader."""
        return None

    def answer_again(self, head: RememberedHead, body: bytes) -> Reply | None:  # noqa: ARG002
        """Return None: no head was remembered."""
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request."""
        if scope["type"] != "http":
            return
        try:
            if not self._any_host:
                check_host(scope)
            if await self._probe(scope, send):
                return
            if self._is_forwarded(scope):
                await _refuse(send, scope, FORWARDED_TWICE, (*_RETRY, NOT_LEADER))
                return
            peer = _peer(scope)
            body = await read_body(
                receive, size_max=REQUEST_BYTES.most, room=self._bodies, peer=peer_name(peer)
            )
            with self._held.hold(peer_name(peer), len(body)):
                await self._forward(scope, body, receive, send)
        except GoneError:
            return
        except NotForwardedError as error:
            self._held.count(PROTOCOL, "refused")
            await _refuse(send, scope, str(error), _RETRY)
        except UnansweredError as error:
            self._held.count(PROTOCOL, "unknown")
            await _refuse(send, scope, f"{UNKNOWN} ({error})")
        except Refusal as error:
            reply = error_reply(error.status, error.code, error.message, error.headers)
            await send_reply(send, reply, head_only=scope["method"] == "HEAD")

    def _is_forwarded(self, scope: Scope) -> bool:
        """Return whether another replica has forwarded this: nothing is forwarded twice."""
        method, target = scope["method"].encode(), target_of(scope)
        shown = [value for name, value in scope["headers"] if name == HEADER]
        return any(self._seal.is_ours(method, target, each) for each in shown)

    async def _forward(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        deadline = asyncio.get_running_loop().time() + HOLD_S
        leader: Leader | None = None
        while True:
            leader = await self._leaders.next(deadline, leader)
            try:
                sent = await self._link.send(leader, self._head(scope, body), body)
            except NotForwardedError:
                continue
            sent.cut_off(self._leaders.end_of(leader))
            try:
                response = await sent.answered()
                whole = await _whole(response)
            except UnansweredError:
                sent.end()
                # A leader that is killed closes its connections one after another.
                self._link.close()
                if not is_repeatable(scope):
                    raise
                continue
            except BaseException:
                sent.end()
                raise
            if NOT_LEADER in response.headers:
                sent.end()
                continue
            self._held.count(PROTOCOL, "answered")
            await self._pass_on(sent, response, whole, receive, send)
            return

    def _head(self, scope: Scope, body: bytes) -> bytes:
        method, target = scope["method"].encode(), target_of(scope)
        origin = Origin(peer=_peer(scope), certificate=certificate_of(scope.get(PEER_CERTIFICATE)))
        pairs = [*_forwarded_headers(scope["headers"], _NOT_SENT)]
        if body or any(name == b"content-length" for name, _ in scope["headers"]):
            pairs.append((b"content-length", b"%d" % len(body)))
        pairs.append((HEADER, self._seal.sign(method, target, origin)))
        lines = [method + b" " + target + b" HTTP/1.1", *(n + b": " + v for n, v in pairs)]
        return b"\r\n".join([*lines, b"", b""])

    async def _pass_on(
        self, sent: Sent, response: Response, whole: bytes | None, receive: Receive, send: Send
    ) -> None:
        headers = list(_forwarded_headers(response.headers, _OF_A_CONNECTION))
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        if whole is not None:
            sent.end()
            await send(start)
            await send({"type": "http.response.body", "body": whole})
            return
        sent.cut_off(self._closing)
        try:
            async with asyncio.TaskGroup() as tasks:
                streaming = tasks.create_task(_stream(response, start, send))
                leaving = tasks.create_task(_left(receive))
                await asyncio.wait({streaming, leaving}, return_when=asyncio.FIRST_COMPLETED)
                is_gone = not streaming.done()
                streaming.cancel()
                leaving.cancel()
        finally:
            sent.end()
        if is_gone:
            return
        # A watch goes on with another request; what is cut off elsewhere must not look whole.
        if not streaming.result() and not _is_watch(headers):
            raise ConnectionResetError("the leader ended within its reply")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream(response: Response, start: dict[str, object], send: Send) -> bool:
    """Pass a reply on as it arrives; return whether it is complete."""
    await send(start)
    try:
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.body())) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
    except UnansweredError:
        return False
    return True


async def _whole(response: Response) -> bytes | None:
    """Return the body of a reply of known, moderate length; None for one that is streamed."""
    found = dict(response.headers).get(b"content-length", b"")
    if response.status != 204 and not (found.isdigit() and int(found) <= WHOLE_BYTES_MAX):
        return None
    return b"".join([part async for part in response.body()])


def is_repeatable(scope: Scope) -> bool:
    """Return whether a request may be carried out twice: nothing more would change.

    Agents repeat their calls themselves until they are acknowledged.
    """
    path: bytes = scope["raw_path"]
    return (
        scope["method"] in ("GET", "HEAD")
        or path.startswith(AGENT_PREFIX)
        or path in REPEATABLE_CALLS
    )


def _forwarded_headers(
    pairs: list[tuple[bytes, bytes]], left_out: frozenset[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    # What a connection names is for that connection only, but it cannot take the credentials away.
    named = {
        each.strip().lower()
        for name, value in pairs
        if name == b"connection"
        for each in value.split(b",")
    } - {b"authorization", b"host"}
    for name, value in pairs:
        if name not in left_out and name not in named:
            yield name, value


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_watch(headers: list[tuple[bytes, bytes]]) -> bool:
    return dict(headers).get(b"content-type") in (EVENT_STREAM, NDJSON)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(
    send: Send, scope: Scope, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    reply = error_reply(503, UNAVAILABLE.name, text, headers)
    await send_reply(send, reply, head_only=scope["method"] == "HEAD")
