"""navarch.v1.AgentService: unary calls, or all calls over one stream."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from navarch.api.auth import shown_in
from navarch.api.calls import GRPC, ApiMetrics
from navarch.api.grpc.guard import Context, guarded, headers_of, refusal
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.limits import check_limits, check_message
from navarch.core.errors import InvalidError, NotPossibleError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.ownership import Joiner
from navarch.core.records import evolve
from navarch.ports.agents import AgentApi, Joins, Registration
from navarch.ports.evidence import EvidenceDesk
from navarch.wire.bodies import LateReadings
from navarch.wire.messages import read_message, write_message
from navarch.wire.v1 import agent_pb2 as pb

SERVICE = "navarch.v1.AgentService"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The caller; with a join token, a machine that may only report its own node."""

    joiner: Joiner | None = None

    @property
    def own(self) -> NodeId | None:
        """The only node that it may report; None for no restriction."""
        return None if self.joiner is None else self.joiner.node

    def check(self, node: NodeId) -> None:
        """Raise NotPossibleError if the machine reports another node."""
        if self.own is not None and self.own != node:
            raise NotPossibleError(f"this join token is not for node {node}")


Call = Callable[[bytes, Sender], Awaitable[bytes]]


class AgentCalls:
    """Handlers of the agents' calls, on encoded messages."""

    def __init__(
        self,
        agents: AgentApi,
        desk: HeartbeatDesk,
        evidence: EvidenceDesk | None = None,
        joins: Joins | None = None,
        *,
        metrics: ApiMetrics,
        link: str = "",
    ) -> None:
        """`link` names the listener, for the nodes that register at it."""
        self._metrics = metrics
        self._link = link
        self._agents = agents
        self._desk = desk
        self._evidence = evidence
        self._joins = joins

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers of the service."""
        calls: dict[str, Call] = {
            "Register": self._register,
            "Heartbeat": self._heartbeat,
            "ReportHealth": self._report_health,
            "ReportMetrics": self._report_metrics,
            "Acknowledge": self._acknowledge,
            "Finish": self._finish,
        }
        if self._evidence is not None:
            calls["ReportEvidence"] = self._report_evidence
        handlers = {
            name: guarded(f"/{SERVICE}/{name}", self._from_sender(call), self._metrics)
            for name, call in calls.items()
        }
        handlers["Attach"] = grpc.stream_stream_rpc_method_handler(self._attach)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _from_sender(self, call: Call) -> Callable[[bytes, Context], Awaitable[bytes]]:
        return lambda body, context: call(body, self._sender(context))

    def _sender(self, context: Context) -> Sender:
        """Return the caller, or raise UnauthenticatedError."""
        if self._joins is None:
            return Sender()
        shown = shown_in(headers_of(context.invocation_metadata()))
        return Sender() if shown is None else Sender(joiner=self._joins.recognize(shown))

    async def _register(self, body: bytes, sender: Sender) -> bytes:
        message = pb.Registration.FromString(body)
        check_message(message)
        registration: Registration = read_message(Registration, message)
        check_limits(registration)
        sender.check(registration.node)
        if sender.joiner is not None and self._joins is not None:
            await self._joins.bind(sender.joiner)
            # The token proves its launch, whichever launch the registration names.
            registration = evolve(registration, token=sender.joiner.launch)
        welcome = await self._agents.register(registration, link=self._link)
        return write_message(welcome, pb.Welcome()).SerializeToString()

    async def _heartbeat(self, body: bytes, sender: Sender) -> bytes:
        return self._desk.beat(body, sender.own)

    async def _report_health(self, body: bytes, sender: Sender) -> bytes:
        request = pb.ReportHealthRequest.FromString(body)
        sender.check(NodeId(request.node))
        check_message(request)
        report = read_message(HealthReport, request.report, "$.report")
        check_limits(report, "$.report")
        status = await self._agents.report_health(NodeId(request.node), report)
        return pb.ReportHealthResponse(status=status or "").SerializeToString()

    async def _report_metrics(self, body: bytes, sender: Sender) -> bytes:
        request = pb.ReportMetricsRequest.FromString(body)
        check_message(request)
        late = read_message(LateReadings, request)
        check_limits(late)
        sender.check(late.node)
        await self._agents.report_metrics(late.node, late.samples)
        return b""

    async def _report_evidence(self, body: bytes, sender: Sender) -> bytes:
        assert self._evidence is not None, "only offered with an archive"
        request = pb.ReportEvidenceRequest.FromString(body)
        evidence = read_message(Evidence, request)
        sender.check(evidence.note.node)
        await self._evidence.report_evidence(evidence)
        return pb.ReportEvidenceResponse().SerializeToString()

    async def _acknowledge(self, body: bytes, sender: Sender) -> bytes:
        request = pb.AcknowledgeRequest.FromString(body)
        sender.check(NodeId(request.node))
        await self._agents.acknowledge(NodeId(request.node), CommandId(request.command))
        return b""

    async def _finish(self, body: bytes, sender: Sender) -> bytes:
        request = pb.FinishRequest.FromString(body)
        sender.check(NodeId(request.node))
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
            yield (await self._answer(body, context)).SerializeToString()

    async def _answer(self, body: bytes, context: Context) -> pb.ControlMessage:
        """Return the reply to one message, which may be an error."""
        number = 0
        try:
            message = pb.AgentMessage.FromString(body)
            number = message.number
            # For every message: a token may have expired since the stream was opened.
            return await self._dispatch(message, self._sender(context))
        except Exception as error:  # noqa: BLE001 - reported, and logged if internal
            code, text = refusal(f"/{SERVICE}/Attach", error)
            return pb.ControlMessage(number=number, error=pb.Error(code=code.name, message=text))

    async def _dispatch(self, message: pb.AgentMessage, sender: Sender) -> pb.ControlMessage:
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
        name, call = answers[kind]
        answer = pb.ControlMessage(number=message.number)
        place = getattr(answer, name)
        place.SetInParent()
        try:
            with self._metrics.measure(GRPC, f"{SERVICE}/{kind.title().replace('_', '')}"):
                reply = await call(getattr(message, kind).SerializeToString(), sender)
            place.ParseFromString(reply)
        except DecodeError as error:
            raise InvalidError("the message cannot be read") from error
        return answer
