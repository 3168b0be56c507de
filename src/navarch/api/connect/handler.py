"""Connect's unary protocol: one POST per call, in JSON or protobuf."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from navarch.api.calls import CONNECT, ApiMetrics
from navarch.api.connect.methods import ReferenceMethods
from navarch.api.connect.nodes import nodes_json, nodes_proto
from navarch.api.http.exchange import JSON, PROTO, Refusal, Reply, Request, error_reply, too_large
from navarch.api.limits import check_json, check_message
from navarch.core.access import permitted
from navarch.core.errors import InvalidError
from navarch.core.limits import CONNECT_JSON_VALUES
from navarch.ports.api import NodeDetail
from navarch.wire.fleet import INTERNAL, code_of, text_of
from navarch.wire.reference import navarch_pb2 as pb

PREFIX = "/navarch.ControlPlaneService/"
INFLATED_MAX = 2**20
HEARTBEAT = "SendHeartbeat"
"""The call that `HeartbeatCalls` answers, whatever its encoding."""

log = structlog.get_logger(__name__)

Call = Callable[[Any, bytes], Awaitable[bytes]]
"""Returns the reply to a message, encoded in a media type."""


class ConnectHandler:
    """The calls of the Go system's agents and CLI."""

    def __init__(self, methods: ReferenceMethods, metrics: ApiMetrics) -> None:
        self._metrics = metrics
        whole: dict[str, tuple[str, type[Message], Callable[[Any], Awaitable[Message]]]] = {
            "RegisterNode": ("register", pb.RegisterNodeRequest, methods.register_node),
            "ReportHealth": ("report_health", pb.ReportHealthRequest, methods.report_health),
            "GetNodeCommands": ("pending", pb.GetNodeCommandsRequest, methods.get_node_commands),
            "GetNode": ("get_node", pb.GetNodeRequest, methods.get_node),
            "IssueCommand": ("issue", pb.IssueCommandRequest, methods.issue_command),
            "ListInstances": ("list_instances", pb.ListInstancesRequest, methods.list_instances),
            "GetInstance": ("get_instance", pb.GetInstanceRequest, methods.get_instance),
        }
        self._calls: dict[str, tuple[str, type[Message], Call]] = {
            name: (operation, kind, _encoding(call))
            for name, (operation, kind, call) in whole.items()
        }
        listing = _encoding_nodes(methods.list_nodes)
        self._calls["ListNodes"] = ("list_node_details", pb.ListNodesRequest, listing)
        self.operations = {name: operation for name, (operation, _, _) in self._calls.items()}
        """The operation of each call."""
        self.operations[HEARTBEAT] = "heartbeat"
        for name in self._calls:
            metrics.method(CONNECT, name)

    async def answer(self, name: str, request: Request) -> Reply:
        """Return the reply to a call, which may be an error."""
        if name not in self.operations:
            raise Refusal(404, "unimplemented", f"there is no method {name}")
        if request.method != "POST":
            allow = ((b"allow", b"POST"),)
            raise Refusal(405, "unimplemented", "calls are made with POST", headers=allow)
        form = request.content_type
        if form not in (JSON, PROTO):
            accepted = ((b"accept-post", b"application/json, application/proto"),)
            text = "send application/json or application/proto"
            raise Refusal(415, "invalid_argument", text, headers=accepted)
        operation, kind, call = self._calls[name]
        try:
            with self._metrics.measure(CONNECT, name):
                permitted(operation)
                message = _read(kind, request)
                async with asyncio.timeout(_timeout_s(request.headers)):
                    body = await call(message, form)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - answered, and logged if internal
            return connect_error(error, name)
        return Reply(body=body, content_type=form)


def _encoding(call: Callable[[Any], Awaitable[Message]]) -> Call:
    async def answer(message: Message, form: bytes) -> bytes:
        reply = await call(message)
        if form == PROTO:
            return reply.SerializeToString()
        value = json_format.MessageToDict(reply)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    return answer


def _encoding_nodes(call: Callable[[Any], AsyncIterator[Sequence[NodeDetail]]]) -> Call:
    """Encode some nodes at a time: a large fleet takes a good part of a second."""

    async def answer(message: Message, form: bytes) -> bytes:
        if form == PROTO:
            # Parts of a repeated field may follow each other.
            return b"".join([nodes_proto(part) async for part in call(message)])
        parts = [nodes_json(part) async for part in call(message) if part]
        return b'{"nodes":[%s]}' % b",".join(parts) if parts else b"{}"

    return answer


def connect_error(error: Exception, method: str) -> Reply:
    """Return the reply to a call that failed, with the status that Connect prescribes."""
    code = code_of(error)
    if code is INTERNAL:
        log.error("connect.failed", method=method, exc_info=error)
    return error_reply(code.connect, code.name, text_of(error, code))


def read_connect_body(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Return the body of a call, inflated; raise InvalidError or Refusal for wrong headers."""
    version = headers.get(b"connect-protocol-version", b"1").decode("latin-1")
    if version != "1":
        raise InvalidError(f'connect-protocol-version must be "1": got "{version}"')
    _timeout_s(headers)
    return _inflated(headers, body)


def _read(kind: type[Message], request: Request) -> Message:
    """Return the body as a message; unknown fields are ignored."""
    body, message = read_connect_body(request.headers, request.body), kind()
    if request.content_type == JSON and body and not body.lstrip().startswith(b"{"):
        # The library takes an array for an object without fields.
        raise InvalidError("unmarshal message: the body must be a JSON object")
    if request.content_type == JSON:
        check_json(body, CONNECT_JSON_VALUES)
    try:
        if request.content_type == PROTO:
            message.ParseFromString(body)
            check_message(message)
        else:
            json_format.Parse(body or b"{}", message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        raise InvalidError(f"unmarshal message: {error}") from error
    return message


def _inflated(headers: Mapping[bytes, bytes], content: bytes) -> bytes:
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding in (b"identity", b""):
        return content
    if encoding != b"gzip":
        raise Refusal(415, "unimplemented", "bodies may be gzip or identity")
    inflater = zlib.decompressobj(wbits=31)
    try:
        body = inflater.decompress(content, INFLATED_MAX + 1)
    except zlib.error as error:
        raise InvalidError("the body is not gzip") from error
    if len(body) > INFLATED_MAX:
        raise too_large(INFLATED_MAX)
    return body


def _timeout_s(headers: Mapping[bytes, bytes]) -> float | None:
    header = headers.get(b"connect-timeout-ms")
    if header is None:
        return None
    if not header.isdigit() or len(header) > 10:
        raise InvalidError("protocol error: invalid Connect-Timeout-Ms")
    return int(header) / 1000
