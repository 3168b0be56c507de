"""Heartbeats that repeat the head of an earlier request need no parser.

On a kept connection an agent sends the same head every time: the request line and the headers, but
for the digits of Content-Length. The first request goes through the parser and the application. If
it is a heartbeat, its head is remembered: the same bytes mean the same again. The application still
checks each request, with the code that checks the first one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from navarch.api.auth import Credentials
from navarch.api.http.exchange import Refusal, Reply, Scope, check_host, reply_headers
from navarch.api.http.heartbeats import HeartbeatCall

LENGTH_DIGITS_MAX = 7
HEAD_BYTES_MAX = 2**13
"""A longer head is not remembered: there is one for each connection."""
REPLIES_MAX = 64
"""The replies kept as bytes. Most heartbeats get the same one."""
REPLY_BYTES_MAX = 64

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
_ONE_REQUEST = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Headers that change how a request is read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RememberedHead:
    """The head of a heartbeat, in two parts around the digits of its Content-Length."""

    before: bytes
    after: bytes
    call: HeartbeatCall
    credentials: Credentials
    is_local: bool
    """Whether its Host is one that a server without a token serves."""

    def body_of(self, data: bytes) -> bytes | None:
        """Return the body if `data` is exactly one request with this head; otherwise None."""
        if not data.startswith(self.before):
            return None
        begin = len(self.before)
        end = data.find(b"\r", begin, begin + LENGTH_DIGITS_MAX + 1)
        digits = data[begin:end]
        if not digits.isdigit() or not data.startswith(self.after, end):
            return None
        start = end + len(self.after)
        return data[start:] if len(data) - start == int(digits) else None


def remember_head(
    data: bytes, scope: Scope, call: HeartbeatCall, credentials: Credentials
) -> RememberedHead | None:
    """Return the head of the one request in `data`, as the parser read it.

    Returns None if another request with the same head might have to be read in another way.
    """
    head = data[: data.find(_END) + len(_END)]
    length = _LENGTH.search(head)
    pairs = scope["headers"]
    names = [name for name, _ in pairs]
    is_as_parsed = head.count(b"\r\n") == head.count(b"\n") == len(pairs) + 2
    if (
        length is None
        or len(head) > HEAD_BYTES_MAX
        or len(data) - len(head) != int(length[1])
        or not is_as_parsed
        or names.count(b"content-length") != 1
        or not _ONE_REQUEST.isdisjoint(names)
        or any(name == b"connection" and value.lower() != b"keep-alive" for name, value in pairs)
        or scope["http_version"] != "1.1"
    ):
        return None
    begin, end = length.span(1)
    return RememberedHead(
        before=head[:begin],
        after=head[end:],
        call=call,
        credentials=credentials,
        is_local=_is_local(scope),
    )


def _is_local(scope: Scope) -> bool:
    try:
        check_host(scope)
    except Refusal:
        return False
    return True


class ReplyBytes:
    """Writes replies as the server writes those of the application."""

    def __init__(self) -> None:
        self._default: Sequence[tuple[bytes, bytes]] | None = None
        self._known: dict[tuple[int, bytes, bytes], bytes] = {}

    def render(self, reply: Reply, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the bytes of a reply; `default_headers` change once a second."""
        if default_headers is not self._default:
            self._default = default_headers
            self._known.clear()
        key = (reply.status, reply.content_type, reply.body)
        known = None if reply.headers else self._known.get(key)
        if known is None:
            lines = [STATUS_LINE[reply.status]]
            for name, value in (*default_headers, *reply_headers(reply)):
                lines += (name, b": ", value, b"\r\n")
            known = b"".join([*lines, b"\r\n", reply.body])
            is_usual = not reply.headers and len(reply.body) <= REPLY_BYTES_MAX
            if is_usual and len(self._known) < REPLIES_MAX:
                self._known[key] = known
        return known
