"""navarch.v1.AgentService: unary calls, or all calls over one stream."""

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
from google.protobuf.message import DecodeError

from navarch.api.calls import GRPC, ApiMetrics
from navarch.api.grpc.guard import Context, guarded, refusal
from navarch.api.heartbeat_batch import receive_batch
from navarch.api.heartbeat_formats import read_packed
from navarch.api.heartbeats import HeartbeatDesk, render_commands
from navarch.api.large_requests import LARGE_BYTES
from navarch.api.limits import check_limits, check_message
from navarch.core.access import acting_as, caller_again, permitted
from navarch.core.errors import InvalidError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.ports.agents import AgentApi, Registration
from navarch.ports.evidence import EvidenceDesk
from navarch.wire.bodies import LateReadings
from navarch.wire.messages import read_message, write_message
from navarch.wire.v1 import agent_pb2 as pb

SERVICE = "navarch.v1.AgentService"


OPERATIONS = {
    f"/{SERVICE}/{name}": operation
    for name, operation in {
        "Register": "register",
        "Heartbeat": "heartbeat",
        "HeartbeatBatch": "heartbeat",
        "ReportHealth": "report_health",
        "ReportMetrics": "report_metrics",
        "ReportEvidence": "report_evidence",
        "Acknowledge": "acknowledge",
        "Finish": "finish",
        # Each of its messages is a call with an operation of its own.
        "Attach": "heartbeat",
    }.items()
}
"""The operation of each call, by its name on the wire."""

Call = Callable[[bytes], Awaitable[bytes]]


class AgentCalls:
    """Handlers of the agents' calls, on encoded messages."""

    def __init__(
        self,
        agents: AgentApi,
        desk: HeartbeatDesk,
        evidence: EvidenceDesk | None = None,
        *,
        metrics: ApiMetrics,
        link: str = "",
    ) -> None:
        """`link` names the listener, for the nodes that register at it."""
        self.closing = False
        """Whether this process leads no longer, so that nothing may be acknowledged."""
        self._metrics = metrics
        self._link = link
        self._agents = agents
        self._desk = desk
        self._evidence = evidence

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers of the service."""
        calls: dict[str, Call] = {
            "Register": self._register,
            "Heartbeat": self._heartbeat,
            "HeartbeatBatch": self._heartbeat_batch,
            "ReportHealth": self._report_health,
            "ReportMetrics": self._report_metrics,
            "Acknowledge": self._acknowledge,
            "Finish": self._finish,
        }
        if self._evidence is not None:
            calls["ReportEvidence"] = self._report_evidence
        handlers = {
            name: guarded(f"/{SERVICE}/{name}", call, self._metrics) for name, call in calls.items()
        }
        handlers["Attach"] = grpc.stream_stream_rpc_method_handler(self._attach)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def _register(self, body: bytes) -> bytes:
        message = pb.Registration.FromString(body)
        check_message(message)
        registration: Registration = read_message(Registration, message)
        check_limits(registration)
        welcome = await self._agents.register(registration, link=self._link)
        return write_message(welcome, pb.Welcome()).SerializeToString()

    async def _heartbeat(self, body: bytes) -> bytes:
        commands = self._desk.receive(read_packed(body))
        return render_commands(commands) if commands else b""

    async def _heartbeat_batch(self, body: bytes) -> bytes:
        # However small it is, it may hold thousands.
        await self._metrics.large.enter(LARGE_BYTES)
        return receive_batch(self._desk, body)

    async def _report_health(self, body: bytes) -> bytes:
        request = pb.ReportHealthRequest.FromString(body)
        check_message(request)
        report = read_message(HealthReport, request.report, "$.report")
        check_limits(report, "$.report")
        status = await self._agents.report_health(NodeId(request.node), report)
        return pb.ReportHealthResponse(status=status or "").SerializeToString()

    async def _report_metrics(self, body: bytes) -> bytes:
        request = pb.ReportMetricsRequest.FromString(body)
        check_message(request)
        late = read_message(LateReadings, request)
        check_limits(late)
        await self._agents.report_metrics(late.node, late.samples)
        return b""

    async def _report_evidence(self, body: bytes) -> bytes:
        assert self._evidence is not None, "only offered with an archive"
        request = pb.ReportEvidenceRequest.FromString(body)
        evidence = read_message(Evidence, request)
        await self._evidence.report_evidence(evidence)
        return pb.ReportEvidenceResponse().SerializeToString()

    async def _acknowledge(self, body: bytes) -> bytes:
        request = pb.AcknowledgeRequest.FromString(body)
        await self._agents.acknowledge(NodeId(request.node), CommandId(request.command))
        return b""

    async def _finish(self, body: bytes) -> bytes:
        request = pb.FinishRequest.FromString(body)
        await self._agents.finish(
            NodeId(request.node),
            CommandId(request.command),
            succeeded=request.succeeded,
            result=request.result,
        )
        return b""

    async def _attach(
        self, messages: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        async for body in messages:
            if self.closing:
                text = "this server stops; connect again, and repeat what was not acknowledged"
                await context.abort(grpc.StatusCode.UNAVAILABLE, text)
            await self._metrics.large.enter(len(body))
            yield (await self._answer(body)).SerializeToString()

    async def _answer(self, body: bytes) -> pb.ControlMessage:
        """Return the reply to one message, which may be an error."""
        number = 0
        try:
            message = pb.AgentMessage.FromString(body)
            number = message.number
            # For every message: a token may have expired since the stream was opened.
            with acting_as(caller_again()):
                return await self._dispatch(message)
        except Exception as error:  # noqa: BLE001 - reported, and logged if internal
            code, text = refusal(f"/{SERVICE}/Attach", error)
            return pb.ControlMessage(number=number, error=pb.Error(code=code.name, message=text))

    async def _dispatch(self, message: pb.AgentMessage) -> pb.ControlMessage:
        kind = message.WhichOneof("call")
        if kind is None:
            raise InvalidError("a message must hold a call - at `$.call`")
        answers: dict[str, tuple[str, Call]] = {
            "register": ("welcome", self._register),
            "heartbeat": ("heartbeat", self._heartbeat),
            "report_health": ("report_health", self._report_health),
            "report_metrics": ("report_metrics", self._report_metrics),
            "acknowledge": ("acknowledge", self._acknowledge),
            "finish": ("finish", self._finish),
        }
        permitted(kind)  # The field of a call has the name of its operation.
        name, call = answers[kind]
        answer = pb.ControlMessage(number=message.number)
        place = getattr(answer, name)
        place.SetInParent()
        try:
            with self._metrics.measure(GRPC, f"{SERVICE}/{kind.title().replace('_', '')}"):
                reply = await call(getattr(message, kind).SerializeToString())
            place.ParseFromString(reply)
        except DecodeError as error:
            raise InvalidError("the message cannot be read") from error
        return answer
