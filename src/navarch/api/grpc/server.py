"""The gRPC server, on port 50052 by default."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any, cast

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from navarch.api.auth import Authenticator
from navarch.api.calls import ApiMetrics
from navarch.api.grpc.agents import OPERATIONS as AGENT_OPERATIONS
from navarch.api.grpc.agents import SERVICE as AGENT_SERVICE
from navarch.api.grpc.agents import AgentCalls
from navarch.api.grpc.guard import TokenInterceptor, guarded, guarded_stream
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

_OPTIONS = (
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


class GrpcServer:
    """Serves navarch.v1 with reflection and the standard health service, until cancelled."""

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
        link: str = "",
        tls: ServerTls | None = None,
    ) -> None:
        """Bind to `address`, such as `127.0.0.1:50052`; raise RuntimeError if that fails.

        `link` names the listener, for the nodes that register at it.
        """
        interceptor = TokenInterceptor(auth, OPERATIONS, calls.logins)
        self._server = grpc.aio.server(interceptors=[interceptor], options=_OPTIONS)
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        of_agents = AgentCalls(agents, desk, evidence, metrics=calls, link=link)
        self._server.add_generic_rpc_handlers((fleet_handlers(fleet, calls), of_agents.handlers()))
        names = (FLEET_SERVICE, AGENT_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        # No check of the Host header, unlike on the HTTP port: gRPC needs HTTP/2 from the first
        # byte, and browsers use HTTP/2 only over TLS, so no web page can make a call.
        if tls is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, tls.grpc_credentials())

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
