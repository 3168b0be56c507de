"""The control plane over HTTP: heartbeats as protobuf, everything else as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import structlog
from msgspec.json import encode

from navarch.agent.transport.protobuf import MalformedError, heartbeat_bytes, parse_heartbeat_reply
from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    UnreachableError,
)
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command
from navarch.http.message import Endpoint, HttpError, Response
from navarch.http.pool import ConnectionPool
from navarch.http.tls import MakeContext
from navarch.ports.agents import Registration, UnauthorizedError, Welcome

log = structlog.get_logger(__name__)
T = TypeVar("T")

CONNECT_S = 5.0
RESPONSE_S = 10.0
"""Well below the control plane's liveness timeout, so that one lost response costs less than one
heartbeat."""
BODY_BYTES_MAX = 4 * 1024 * 1024
"""Responses to agents are small. A larger one is a mistake or comes from another server."""

JSON = "application/json"
PROTOBUF = "application/proto"

_REFUSALS: Mapping[str | int, type[NavarchError]] = {
    "invalid_argument": InvalidError,
    "resource_exhausted": InvalidError,
    "not_found": NotFoundError,
    "failed_precondition": NotPossibleError,
    "aborted": ConflictError,
    "unauthenticated": UnauthorizedError,
    # A status without a code is most likely from a proxy.
    400: InvalidError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    409: ConflictError,
    412: NotPossibleError,
    413: InvalidError,
    422: InvalidError,
}
"""The error for each refusal. All other failures are the server's and may be transient, even a bare
404: only the control plane itself can report an unknown node, and a proxy that lost its routes must
not make a whole fleet register again."""

_NO_SUCH_CALL = frozenset({404, 405, 501})


class _ErrorBody(msgspec.Struct):
    code: str = ""
    message: str = ""


class _HealthReply(msgspec.Struct):
    status: str | None = None


class HttpLink:
    """A Link over one keep-alive HTTP connection."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        token: Callable[[], str | None],
        tls: MakeContext | None = None,
    ) -> None:
        # Five thousand agents must not open more than one connection each.
        self._connection = ConnectionPool(
            endpoint,
            connect_s=CONNECT_S,
            response_s=RESPONSE_S,
            connections_max=1,
            tls=tls,
            body_bytes_max=BODY_BYTES_MAX,
        )
        # Read for every request, so that a token rotated in its file takes effect.
        self._token = token

    async def register(self, registration: Registration) -> Welcome:
        """Register the machine."""
        reply = await self._post("/v1/agent/register", encode(registration))
        return _decoded(reply, Welcome)

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat; return the pending commands."""
        body = heartbeat_bytes(node, metrics, sequence=sequence)
        reply = await self._post("/v1/agent/heartbeat", body, PROTOBUF)
        try:
            decoded = parse_heartbeat_reply(reply.body, node)
        except MalformedError as error:
            raise UnreachableError(f"invalid reply to a heartbeat: {error}") from error
        if decoded.unknown:
            log.warning("link.unknown_commands", node=node, kinds=decoded.unknown)
        return decoded.commands

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Send a health report; return the node's status."""
        body = encode({"node": node, "report": report})
        reply = await self._post("/v1/agent/health", body)
        status = _decoded(reply, _HealthReply).status if reply.body else None
        return NodeStatus(status) if status in set(NodeStatus) else None

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Send buffered metrics; do nothing if the control plane has no such call."""
        body = encode({"node": node, "samples": samples})
        await self._post("/v1/agent/metrics", body, optional=True)

    async def report_evidence(self, evidence: Evidence) -> None:
        """Send an evidence bundle; do nothing if the control plane has no such call."""
        await self._post("/v1/agent/evidence", encode(evidence), optional=True)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge a command."""
        await self._post("/v1/agent/acknowledge", encode({"node": node, "command": command}))

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the result of a command."""
        body = {"node": node, "command": command, "succeeded": succeeded, "result": result}
        await self._post("/v1/agent/finish", encode(body))

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _post(
        self, path: str, body: bytes, content_type: str = JSON, *, optional: bool = False
    ) -> Response:
        """Return the reply; raise the error that corresponds to a refusal.

        An optional call is one that a control plane may not have.
        """
        headers = {"Content-Type": content_type, "Accept": content_type}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            # Every call of an agent may arrive twice without harm.
            reply = await self._connection.request(
                "POST", path, headers=headers, body=body, idempotent=True
            )
        except HttpError as error:
            raise UnreachableError(str(error)) from error
        if reply.status // 100 == 2 or (optional and reply.status in _NO_SUCH_CALL):
            return reply
        try:
            refusal = msgspec.json.decode(reply.body, type=_ErrorBody)
        except msgspec.DecodeError:
            refusal = _ErrorBody()
        kind = _REFUSALS.get(refusal.code) or _REFUSALS.get(reply.status, UnreachableError)
        raise kind(refusal.message or f"{path}: status {reply.status}")


def _decoded(reply: Response, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=wanted, strict=False)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"invalid reply: {error}") from error
