"""The gRPC server, on port 50052 by default."""

from datetime import timedelta

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from navarch.api.auth import Authenticator, JoinTokens
from navarch.api.grpc.agents import SERVICE as AGENT_SERVICE
from navarch.api.grpc.agents import AgentCalls
from navarch.api.grpc.fleet import fleet_handlers
from navarch.api.grpc.guard import TokenInterceptor
from navarch.api.heartbeats import HeartbeatDesk
from navarch.ports.agents import AgentApi
from navarch.ports.api import FleetApi
from navarch.ports.evidence import EvidenceDesk
from navarch.ports.joining import Joins
from navarch.wire.fleet import SERVICE as FLEET_SERVICE

MESSAGE_BYTES_MAX = 2**20
STOP_WITHIN = timedelta(seconds=2)

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", 1000),
    # A port in use must be an error, not a second server that gets half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


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
        evidence: EvidenceDesk | None = None,
        joins: Joins | None = None,
    ) -> None:
        """Bind to `address`, such as `127.0.0.1:50052`; raise RuntimeError if that fails."""
        if joins is not None:
            auth = JoinTokens(joins, auth)
        self._server = grpc.aio.server(interceptors=[TokenInterceptor(auth)], options=_OPTIONS)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._server.add_generic_rpc_handlers(
            (fleet_handlers(fleet), AgentCalls(agents, desk, evidence, joins).handlers())
        )
        names = (FLEET_SERVICE, AGENT_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        # No check of the Host header, unlike on the HTTP port: gRPC needs HTTP/2 from the first
        # byte, and browsers use HTTP/2 only over TLS, so no web page can make a call.
        self.port = self._server.add_insecure_port(address)

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
