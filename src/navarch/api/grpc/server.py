"""The gRPC server, on port 50052 by default."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Protocol, cast

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from navarch.api.auth import Authenticator
from navarch.api.calls import ApiMetrics
from navarch.api.forward.origin import Seal
from navarch.api.grpc.agents import OPERATIONS as AGENT_OPERATIONS
from navarch.api.grpc.agents import SERVICE as AGENT_SERVICE
from navarch.api.grpc.agents import AgentCalls
from navarch.api.grpc.guard import OPEN_SERVICES, TokenInterceptor, guarded, guarded_stream
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.limits import check_limits, check_message
from navarch.api.tls import ServerTls
from navarch.core.limits import HEALTH_WATCHES, REQUEST_BYTES
from navarch.ports.agents import AgentApi
from navarch.ports.api import FleetApi, Update
from navarch.ports.evidence import EvidenceDesk
from navarch.wire.fleet import FLEET_CALLS, SERVICE, FleetCall
from navarch.wire.fleet import SERVICE as FLEET_SERVICE


def fleet_handlers(fleet: FleetApi, metrics: ApiMetrics) -> grpc.GenericRpcHandler:
    """Return the handlers of the service."""
    handlers = {}
    for call in FLEET_CALLS.values():
        if call.streams:
            handlers[call.name] = guarded_stream(call.path, _watch(fleet, call))
        else:
            handlers[call.name] = guarded(call.path, _answer(fleet, call), metrics)
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _answer(fleet: FleetApi, call: FleetCall) -> Callable[[bytes], Awaitable[bytes]]:
    method = getattr(fleet, call.method)

    async def answer(body: bytes) -> bytes:
        arguments = call.read_request(body, check_message)
        check_limits(arguments)
        return call.write_reply(await method(**arguments))

    return answer


def _watch(fleet: FleetApi, call: FleetCall) -> Callable[[bytes], AsyncIterator[bytes]]:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        arguments = call.read_request(body, check_message)
        check_limits(arguments)
        updates = cast("Any", fleet.watch(**arguments))
        # Closed at once when the client leaves, so that the store stops sending updates.
        async with aclosing(updates):
            update: Update
            async for update in updates:
                yield call.write_reply(update)

    return answer


OPERATIONS = {call.path: name for name, call in FLEET_CALLS.items()} | AGENT_OPERATIONS
"""The operation of each call, by its name on the wire: of the fleet, the name of its method."""

STOP_WITHIN = timedelta(seconds=2)

NOT_LEADER = ("navarch-not-leader", "1")
"""The trailing metadata of a forwarded call that its receiver did not carry out, because it does
not lead."""

OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_BYTES.most),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", 1000),
    # A port in use must be an error, not a second server that gets half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class _Health(health.aio.HealthServicer):  # type: ignore[misc] # no types
    """The standard health service, which needs no token, with a bound on its streams."""

    def __init__(self) -> None:
        super().__init__()
        self._watches = 0

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: ANN401, N802
        if self._watches >= HEALTH_WATCHES.most:
            text = f"{HEALTH_WATCHES.most} {HEALTH_WATCHES.what} are open; use Check"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._watches += 1
        try:
            await super().Watch(request, context)
        finally:
            self._watches -= 1


class GrpcAnswers(Protocol):
    """What answers the calls of a port."""

    def close(self) -> None:
        """End the streams: something else answers."""

    async def handler(self, continuation: Any, details: Any) -> Any:  # noqa: ANN401
        """Return the handler of a call, None if there is none."""


class LocalCalls:
    """The calls of this process: it leads."""

    def __init__(
        self,
        fleet: FleetApi,
        agents: AgentApi,
        *,
        auth: Authenticator,
        desk: HeartbeatDesk,
        calls: ApiMetrics,
        evidence: EvidenceDesk | None = None,
        link: str = "",
        seal: Seal | None = None,
    ) -> None:
        """`link` names the listener, for the nodes that register at it.

        `seal` recognizes what other replicas forward.
        """
        self._interceptor = TokenInterceptor(auth, OPERATIONS, calls.logins, seal)
        self._agents = AgentCalls(agents, desk, evidence, metrics=calls, link=link)
        self._services = (fleet_handlers(fleet, calls), self._agents.handlers())

    def close(self) -> None:
        """End the streams of agents with their next message, which is not acknowledged."""
        self._agents.closing = True

    async def ended(self) -> None:
        """Return when the calls with one reply are answered."""
        await self._interceptor.ended()

    async def handler(self, continuation: Any, details: Any) -> Any:  # noqa: ANN401
        """Return the handler of a call, which checks its caller first."""

        async def find(details: Any) -> Any:  # noqa: ANN401
            found = (each.service(details) for each in self._services)
            return next(filter(None, found), None) or await continuation(details)

        return await self._interceptor.intercept_service(find, details)


class _Front(grpc.aio.ServerInterceptor):
    """Hands each call to what answers at that moment."""

    def __init__(self, answers: GrpcAnswers) -> None:
        self.answers = answers

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Return the handler of a call."""
        if handler_call_details.method.startswith(OPEN_SERVICES):
            return await continuation(handler_call_details)
        return await self.answers.handler(continuation, handler_call_details)


class GrpcPort:
    """Serves navarch.v1 with reflection and the standard health service, until cancelled."""

    def __init__(self, answers: GrpcAnswers, *, address: str, tls: ServerTls | None = None) -> None:
        """Bind to `address`, such as `127.0.0.1:50052`; raise RuntimeError if that fails."""
        self._front = _Front(answers)
        self._server = grpc.aio.server(interceptors=[self._front], options=OPTIONS)
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (FLEET_SERVICE, AGENT_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        # No check of the Host header, unlike on the HTTP port: gRPC needs HTTP/2 from the first
        # byte, and browsers use HTTP/2 only over TLS, so no web page can make a call.
        if tls is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, tls.grpc_credentials())

    def become(self, answers: GrpcAnswers) -> None:
        """Answer the calls that arrive from now on in another way; end the streams of before."""
        before, self._front.answers = self._front.answers, answers
        before.close()

    async def drain(self) -> None:
        """Report to probes that this server ends."""
        await self._health.enter_graceful_shutdown()

    async def run(self) -> None:
        """Serve until cancelled, then finish the calls in progress."""
        await self._server.start()
        for name in ("", FLEET_SERVICE, AGENT_SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        try:
            await self._server.wait_for_termination()
        finally:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(STOP_WITHIN.total_seconds())


class GrpcServer(GrpcPort):
    """A port at which this process answers by itself from the start."""

    def __init__(
        self,
        fleet: FleetApi,
        agents: AgentApi,
        *,
        auth: Authenticator,
        desk: HeartbeatDesk,
        address: str,
        calls: ApiMetrics,
        evidence: EvidenceDesk | None = None,
    ) -> None:
        """Bind to `address`; raise RuntimeError if that fails."""
        local = LocalCalls(fleet, agents, auth=auth, desk=desk, calls=calls, evidence=evidence)
        super().__init__(local, address=address)
