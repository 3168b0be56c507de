"""Heartbeats over HTTP, in every encoding: found by path and media type, answered at once.

Nothing here waits, so that the server can answer a heartbeat while it reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from navarch.api.calls import CONNECT, HTTP, ApiMetrics, MethodMetrics
from navarch.api.connect.handler import HEARTBEAT as CONNECT_HEARTBEAT
from navarch.api.connect.handler import PREFIX, connect_error, read_connect_body
from navarch.api.heartbeat_batch import receive_batch
from navarch.api.heartbeat_formats import (
    read_connect_json,
    read_connect_proto,
    read_json,
    read_packed,
)
from navarch.api.heartbeats import HeartbeatDesk, render_commands
from navarch.api.http.exchange import JSON, PROTO, Refusal, Reply, Scope, media_type
from navarch.wire.bodies import Orders
from navarch.wire.reference import navarch_pb2 as reference

PATH = "/v1/agent/heartbeat"
BATCH_PATH = "/v1/agent/heartbeats"
PROTO_TYPES = (PROTO, b"application/protobuf", b"application/x-protobuf")
"""The media types in use for protobuf."""

Headers = Mapping[bytes, bytes]
Answer = Callable[[Headers, bytes], bytes]

_NO_ORDERS = msgspec.json.encode(Orders(commands=()))
_CONNECT_PROTO_REPLY = reference.HeartbeatResponse(acknowledged=True).SerializeToString()
_CONNECT_JSON_REPLY = b'{"acknowledged":true}'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeartbeatCall:
    """One way to send heartbeats."""

    path: str
    usual: Reply
    """The reply to most heartbeats."""
    answer: Answer
    """Returns the body of the reply to headers and a body."""
    metrics: MethodMetrics | None
    is_connect: bool = False
    is_batch: bool = False
    """Whether a request may hold the heartbeats of many nodes."""


class HeartbeatCalls:
    """Answers heartbeats. Raises for those that are refused, except over Connect."""

    def __init__(self, desk: HeartbeatDesk, calls: ApiMetrics) -> None:
        self._desk = desk
        packed = HeartbeatCall(
            path=PATH,
            usual=Reply(body=b"", content_type=PROTO),
            answer=self._packed,
            metrics=None,
        )
        plain = HeartbeatCall(
            path=PATH,
            usual=Reply(body=_NO_ORDERS, content_type=JSON),
            answer=self._json,
            metrics=calls.method(HTTP, f"POST {PATH}"),
        )
        batch = HeartbeatCall(
            path=BATCH_PATH,
            usual=Reply(body=b"", content_type=PROTO),
            answer=self._batch,
            metrics=calls.method(HTTP, f"POST {BATCH_PATH}"),
            is_batch=True,
        )
        connect_path = PREFIX + CONNECT_HEARTBEAT
        connect = [
            HeartbeatCall(
                path=connect_path,
                usual=Reply(body=acknowledged, content_type=form),
                answer=answer,
                metrics=calls.method(CONNECT, CONNECT_HEARTBEAT),
                is_connect=True,
            )
            for form, answer, acknowledged in (
                (PROTO, self._connect_proto, _CONNECT_PROTO_REPLY),
                (JSON, self._connect_json, _CONNECT_JSON_REPLY),
            )
        ]
        self._calls: dict[str, dict[bytes, HeartbeatCall]] = {
            PATH: {**dict.fromkeys(PROTO_TYPES, packed), JSON: plain},
            BATCH_PATH: dict.fromkeys(PROTO_TYPES, batch),
            connect_path: {call.usual.content_type: call for call in connect},
        }

    def find(self, scope: Scope) -> HeartbeatCall | None:
        """Return the call that a request makes; None if it is no heartbeat."""
        forms = self._calls.get(scope["path"])
        if forms is None or scope["method"] != "POST":
            return None
        call = forms.get(media_type(dict(scope["headers"])))
        if call is not None and call.answer == self._json and scope["query_string"]:
            return None  # Refused like every call that takes no parameters.
        return call

    def answer(self, call: HeartbeatCall, headers: Headers, body: bytes) -> Reply:
        """Return the reply to a heartbeat. Its sender is the caller, whom the desk checks."""
        try:
            if call.metrics is None:
                content = call.answer(headers, body)
            else:
                with call.metrics.measure():
                    content = call.answer(headers, body)
        except Refusal:
            raise
        except Exception as error:
            if not call.is_connect:
                raise
            return connect_error(error, CONNECT_HEARTBEAT)
        if content == call.usual.body:
            return call.usual
        return Reply(body=content, content_type=call.usual.content_type)

    def _packed(self, _headers: Headers, body: bytes) -> bytes:
        commands = self._desk.receive(read_packed(body))
        return render_commands(commands) if commands else b""

    def _batch(self, _headers: Headers, body: bytes) -> bytes:
        return receive_batch(self._desk, body)

    def _json(self, _headers: Headers, body: bytes) -> bytes:
        commands = self._desk.receive(read_json(body))
        return msgspec.json.encode(Orders(commands=tuple(commands))) if commands else _NO_ORDERS

    def _connect_proto(self, headers: Headers, body: bytes) -> bytes:
        self._desk.receive(read_connect_proto(read_connect_body(headers, body)))
        return _CONNECT_PROTO_REPLY

    def _connect_json(self, headers: Headers, body: bytes) -> bytes:
        self._desk.receive(read_connect_json(read_connect_body(headers, body)))
        return _CONNECT_JSON_REPLY
