"""The control plane over HTTP: heartbeats as packed protobuf, everything else as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

import msgspec
import structlog

from navarch.agent.http import HttpConnection, Reply
from navarch.agent.protobuf import MalformedError, heartbeat_bytes, parse_orders
from navarch.core.command import Command
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
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.ports.agents import Registration, Welcome
from navarch.ports.link import UnauthorizedError

log = structlog.get_logger(__name__)
T = TypeVar("T")

JSON = "application/json"
PROTOBUF = "application/proto"

_REFUSALS: Mapping[int, type[NavarchError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    409: ConflictError,
    412: NotPossibleError,
    413: InvalidError,
    422: InvalidError,
}
"""Every other status is the server's trouble rather than ours, and may pass."""


class _Refusal(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Standing(msgspec.Struct):
    status: str | None = None


class HttpLink:
    """Speaks to one control plane over one kept-alive connection."""

    def __init__(
        self, connection: HttpConnection, *, token: Callable[[], str | None] = lambda: None
    ) -> None:
        self._connection = connection
        # Asked for every request: a token that is renewed in its file is used from then on.
        self._token = token
        self._encoder = msgspec.json.Encoder()

    async def register(self, registration: Registration) -> Welcome:
        """Introduce the machine."""
        reply = await self._post_json("/v1/agent/register", registration)
        return _decoded(reply, Welcome)

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Say that `node` is alive; return what it is asked to do."""
        body = heartbeat_bytes(node, metrics, sequence=sequence)
        reply = await self._post("/v1/agent/heartbeat", body, PROTOBUF)
        try:
            orders = parse_orders(reply.body, node)
        except MalformedError as error:
            raise UnreachableError(f"the answer to a heartbeat makes no sense: {error}") from error
        if orders.unknown:
            log.warning("link.unknown_commands", node=node, kinds=orders.unknown)
        return orders.commands

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Say what the checks found."""
        reply = await self._post_json("/v1/agent/health", {"node": node, "report": report})
        status = _decoded(reply, _Standing).status if reply.body else None
        return NodeStatus(status) if status in set(NodeStatus) else None

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Hand over old readings."""
        await self._post_json("/v1/agent/metrics", {"node": node, "samples": samples})

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Say that a command has arrived."""
        await self._post_json("/v1/agent/acknowledge", {"node": node, "command": command})

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Say how a command ended."""
        body = {"node": node, "command": command, "succeeded": succeeded, "result": result}
        await self._post_json("/v1/agent/finish", body)

    async def close(self) -> None:
        """Hang up."""
        await self._connection.close()

    async def _post_json(self, path: str, body: object) -> Reply:
        return await self._post(path, self._encoder.encode(body), JSON)

    async def _post(self, path: str, body: bytes, content_type: str) -> Reply:
        headers = {"Content-Type": content_type, "Accept": content_type}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        reply = await self._connection.post(path, body, headers)
        if reply.status // 100 != 2:
            _refuse(path, reply)
        return reply


def _refuse(path: str, reply: Reply) -> NoReturn:
    try:
        said = msgspec.json.decode(reply.body, type=_Refusal).message
    except msgspec.DecodeError:
        said = ""
    error = _REFUSALS.get(reply.status, UnreachableError)
    raise error(said or f"{path}: status {reply.status}")


def _decoded(reply: Reply, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=wanted, strict=False)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the answer makes no sense: {error}") from error
