"""The agent's link to the control plane over gRPC. HTTP costs the server far less."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import grpc
from google.protobuf.message import DecodeError, Message

from navarch.client.connection import parse_address
from navarch.client.grpc_channel import open_channel
from navarch.core.errors import NavarchError, NotPossibleError, UnreachableError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command, CommandKind
from navarch.http.tls import TlsPaths
from navarch.ports.agents import Link, Registration, UnauthorizedError, Welcome
from navarch.wire.bodies import LateReadings
from navarch.wire.fleet import error_from
from navarch.wire.messages import read_message, write_message
from navarch.wire.v1 import agent_pb2 as pb

SERVICE = "/navarch.v1.AgentService/"
TIMEOUT_S = 15.0
_KINDS = frozenset(CommandKind)
_MIB = float(2**20)


def grpc_link(server: str, token: Callable[[], str | None], files: TlsPaths | None = None) -> Link:
    """Return a link over gRPC; it connects on the first call."""
    address = parse_address(server)
    # Do not send the token through a proxy from the environment.
    options = (("grpc.enable_http_proxy", 0), ("grpc.keepalive_time_ms", 60_000))
    target = f"{address.host_in_url}:{address.port}"
    return GrpcLink(lambda: open_channel(address.scheme, target, options, files), token=token)


class GrpcLink:
    """A link over one channel, which reconnects automatically."""

    def __init__(
        self,
        open_channel: Callable[[], grpc.aio.Channel],
        *,
        token: Callable[[], str | None] = lambda: None,
    ) -> None:
        # Opened on the first call: a channel belongs to the event loop that creates it.
        self._open_channel = open_channel
        self._channel: grpc.aio.Channel | None = None
        self._token = token

    async def register(self, registration: Registration) -> Welcome:
        """Register the machine."""
        answer = pb.Welcome()
        await self._request("Register", write_message(registration, pb.Registration()), answer)
        welcome: Welcome = read_message(Welcome, answer)
        return welcome

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat; return the pending commands."""
        values = metrics or NodeMetrics()
        request = pb.HeartbeatRequest(
            node_id=node,
            sequence=sequence,
            cpu_pct=values.cpu_pct,
            memory_pct=values.memory_pct,
            temperature_c=[gpu.temperature_c for gpu in values.gpus],
            power_w=[gpu.power_w for gpu in values.gpus],
            utilization_pct=[gpu.utilization_pct for gpu in values.gpus],
            memory_used_mib=[gpu.memory_used_bytes / _MIB for gpu in values.gpus],
        )
        answer = pb.HeartbeatResponse()
        await self._request("Heartbeat", request, answer)
        # Skip command kinds of a newer control plane.
        return [_command(node, each) for each in answer.commands if each.kind in _KINDS]

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Report check results; return the node's status."""
        request = pb.ReportHealthRequest(node=node)
        write_message(report, request.report)
        answer = pb.ReportHealthResponse()
        await self._request("ReportHealth", request, answer)
        return NodeStatus(answer.status) if answer.status in set(NodeStatus) else None

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Upload samples taken while the control plane was unreachable."""
        late = LateReadings(node=node, samples=tuple(samples))
        request = write_message(late, pb.ReportMetricsRequest())
        await self._request("ReportMetrics", request, pb.ReportMetricsResponse())

    async def report_evidence(self, evidence: Evidence) -> None:
        """Upload an evidence bundle. Raises NotPossibleError if the server is too old."""
        request = write_message(evidence, pb.ReportEvidenceRequest())
        await self._request("ReportEvidence", request, pb.ReportEvidenceResponse())

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge a command."""
        request = pb.AcknowledgeRequest(node=node, command=command)
        await self._request("Acknowledge", request, pb.AcknowledgeResponse())

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the result of a command."""
        request = pb.FinishRequest(node=node, command=command, succeeded=succeeded, result=result)
        await self._request("Finish", request, pb.FinishResponse())

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()

    async def _request(self, call: str, request: Message, answer: Message) -> None:
        if self._channel is None:
            self._channel = self._open_channel()
        call_method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            SERVICE + call
        )
        # Read for every call, so that a renewed token takes effect.
        token = self._token()
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        refusal = None
        try:
            body = await call_method(
                request.SerializeToString(), metadata=metadata, timeout=TIMEOUT_S
            )
            answer.ParseFromString(body)
        except grpc.aio.AioRpcError as error:
            refusal = _refusal(error)
        except DecodeError as error:
            raise UnreachableError(f"cannot decode the response to {call}") from error
        if refusal is not None:
            # Raised here, so that gRPC's error and its call are not kept alive as the cause.
            raise refusal


def _refusal(error: grpc.aio.AioRpcError) -> NavarchError:
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return UnauthorizedError("the control plane does not accept the token")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return UnauthorizedError(text)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotPossibleError(f"the control plane is older than this agent: {text}")
    return error_from(code.name.lower(), text)


def _command(node: NodeId, order: pb.AgentCommand) -> Command:
    return Command(
        id=CommandId(order.command_id),
        node=node,
        kind=CommandKind(order.kind),
        parameters=dict(order.parameters),
        issued_at=datetime.fromtimestamp(order.issued_at_unix_ms / 1000, UTC),
        expires_at=datetime.fromtimestamp(order.expires_at_unix_ms / 1000, UTC),
    )
