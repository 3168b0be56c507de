"""One request and its reply, between ASGI and the handlers."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from navarch.api.limits import check_json, check_limits
from navarch.core.errors import InvalidError
from navarch.core.limits import BODY_BYTES, BODY_BYTES_PER_PEER
from navarch.core.records import record_fields
from navarch.wire.fleet import TOO_LARGE, UNAVAILABLE

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PEER_CERTIFICATE = "navarch.peer_certificate"
"""The entry of a request's scope with the verified certificate of a TLS client."""

JSON = b"application/json"
PROTO = b"application/proto"
TEXT = b"text/plain; charset=utf-8"


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """A response that ends a request before its handler is called."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers


class GoneError(Exception):
    """The client disconnected before its request was complete; no response is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response."""

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, with the named parts of its path."""

    method: str
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    query_string: bytes = b""
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def content_type(self) -> bytes:
        """The media type of the body, without its parameters."""
        return media_type(self.headers)

    def json(self, kind: type[T]) -> T:
        """Return the body as a value of type `kind`; an empty body is an empty object."""
        if self.body and self.content_type != JSON:
            raise Refusal(415, "invalid_argument", "the body must be application/json")
        check_json(self.body)
        try:
            value = msgspec.json.decode(self.body or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidError(str(error)) from error
        check_limits(value)
        return value

    def query(self, kind: type[T], *, labels: bool = False) -> T:
        """Return the query parameters as a value of type `kind`."""
        try:
            pairs = parse_qsl(
                self.query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=64,
            )
        except ValueError as error:
            raise InvalidError("the query string cannot be read") from error
        given: dict[str, Any] = {}
        known = {part.name for part in record_fields(kind)}
        for name, value in pairs:
            if labels and name == "label":
                key, equals, text = value.partition("=")
                if not equals:
                    raise InvalidError("a label is given as name=value - at `$.label`")
                given.setdefault("labels", {})[key] = text
            elif name not in known:
                raise InvalidError(f"unknown parameter - at `$.{name}`")
            elif name in given:
                raise InvalidError(f"given twice - at `$.{name}`")
            else:
                given[name] = value
        try:
            value_of_kind = msgspec.convert(given, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidError(str(error)) from error
        check_limits(value_of_kind)
        return value_of_kind


def media_type(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the media type of a body, without its parameters."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


class BodyRoom:
    """The memory for the bodies that are being received, shared by all connections."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._total = 0

    def take(self, peer: str, size: int) -> None:
        """Count a part of a body; raise Refusal if too much is being received."""
        self._held[peer] += size
        self._total += size
        if self._held[peer] > BODY_BYTES_PER_PEER.most or self._total > BODY_BYTES.most:
            text = "too many request bodies are being received; try again later"
            raise Refusal(503, UNAVAILABLE.name, text, headers=CLOSE)

    def give(self, peer: str, size: int) -> None:
        """Count no longer what a request held."""
        self._held[peer] -= size
        self._total -= size
        if not self._held[peer]:
            del self._held[peer]


async def read_body(
    receive: Receive, *, size_max: int, room: BodyRoom | None = None, peer: str = ""
) -> bytes:
    """Return the whole body; raise Refusal if it is too large. The server limits the time."""
    room = room or BodyRoom()
    body = bytearray()
    held = 0
    more = True
    try:
        while more and len(body) <= size_max:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            part = message.get("body", b"")
            more = message.get("more_body", False)
            if more:
                held += len(part)
                room.take(peer, len(part))
            body += part
    finally:
        room.give(peer, held)
    if len(body) > size_max:
        raise too_large(size_max)
    return bytes(body)


CLOSE = ((b"connection", b"close"),)


def too_large(size_max: int) -> Refusal:
    """Return the refusal of a body over the limit."""
    # Closing avoids reading the rest of it.
    return Refusal(413, TOO_LARGE.name, f"the body is over {size_max} bytes", headers=CLOSE)


def reply_headers(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply."""
    return [
        (b"content-type", reply.content_type),
        (b"content-length", b"%d" % len(reply.body)),
        *reply.headers,
    ]


async def send_reply(send: Send, reply: Reply, *, head_only: bool = False) -> None:
    """Send `reply`, or only its head."""
    headers = reply_headers(reply)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else reply.body})


def error_reply(
    status: int, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Reply:
    """Return an error in the form that the JSON API and Connect share."""
    body = json.dumps({"code": code, "message": message}, separators=(",", ":")).encode()
    return Reply(body=body, status=status, headers=headers)


_LOOPBACK = re.compile(
    rb"(?:localhost\.?|\[::1\]|(?P<address>127\.[0-9.]+))(?::[0-9]*)?", re.IGNORECASE
)


def target_of(scope: Scope) -> bytes:
    """Return the target of a request: its path and query, as they were received."""
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return path + b"?" + query if query else path


def check_host(scope: Scope) -> None:
    """Reject a request unless it has exactly one Host header, which names loopback."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) == 1 and is_loopback(hosts[0]):
        return
    host, port = scope.get("server") or ("127.0.0.1", 50051)
    own = f"http://{'[::1]' if ':' in host else '127.0.0.1'}:{port}"
    raise Refusal(
        421,
        "permission_denied",
        "a server without a token serves only requests whose one Host header is localhost, an "
        "address in 127.0.0.0/8 or [::1], because any other name may belong to a web page; "
        f"use {own}, or set NAVARCH_AUTH_TOKEN for the server and its clients",
    )


def is_loopback(authority: bytes) -> bool:
    """Return whether a Host header, with or without a port, names loopback."""
    match = _LOOPBACK.fullmatch(authority)
    if match is None:
        return False
    if match["address"] is None:
        return True
    try:
        IPv4Address(match["address"].decode("ascii"))
    except AddressValueError:
        return False  # Such as 127.0.0.256 or 127.1.
    return True
