"""FleetApi over gRPC."""

# Replies decode to the return type of the method of the same name, which mypy cannot infer.
# mypy: disable-error-code="no-any-return"

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import grpc

from navarch.client.grpc_channel import open_channel
from navarch.core.errors import NavarchError, UnauthenticatedError, UnreachableError
from navarch.core.event import Recorded, Subject
from navarch.core.health import CheckResult
from navarch.core.ids import CommandId, IncidentId, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.recovery import Command, CommandKind
from navarch.http.message import Endpoint
from navarch.http.tls import TlsPaths
from navarch.ports.api import (
    Capacity,
    CostBy,
    CostReport,
    FleetStatus,
    InstanceView,
    NodeDetail,
    NodeView,
    Offer,
    Page,
    PoolSpec,
    PoolView,
    Query,
    Update,
    Why,
)
from navarch.wire.fleet import FLEET_CALLS, error_from

_OPTIONS = (
    ("grpc.max_receive_message_length", 256 * 2**20),
    ("grpc.keepalive_time_ms", 30_000),
    # Do not send the token through a proxy from the environment.
    ("grpc.enable_http_proxy", 0),
)


class GrpcFleetClient:
    """FleetApi over gRPC."""

    def __init__(
        self,
        address: Endpoint,
        *,
        token: str | None,
        timeout_s: float,
        tls_files: TlsPaths | None = None,
    ) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        target = f"{address.host_in_url}:{address.port}"
        self._channel = open_channel(address.scheme, target, _OPTIONS, tls_files)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def status(self) -> FleetStatus:
        """Return a summary of the fleet."""
        return await self._call("status")

    async def list_nodes(self, query: Query) -> Page[NodeView]:
        """Return the nodes that match."""
        return await self._call("list_nodes", query=query)

    async def get_node(self, name: NodeId) -> NodeDetail:
        """Return one node."""
        return await self._call("get_node", name=name)

    async def list_instances(self, query: Query) -> Page[InstanceView]:
        """Return the machines that match."""
        return await self._call("list_instances", query=query)

    async def get_instance(self, name: str) -> InstanceView:
        """Return one machine."""
        return await self._call("get_instance", name=name)

    async def list_pools(self) -> Sequence[PoolView]:
        """Return every pool, by name."""
        return await self._call("list_pools")

    async def get_pool(self, name: PoolName) -> PoolView:
        """Return one pool."""
        return await self._call("get_pool", name=name)

    async def put_pool(self, spec: PoolSpec, *, reason: str) -> PoolView:
        """Create or replace a pool."""
        return await self._call("put_pool", spec=spec, reason=reason)

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> PoolView:
        """Set a pool's size, within its bounds."""
        return await self._call("scale", pool=pool, nodes=nodes, reason=reason)

    async def delete_pool(self, pool: PoolName, *, reason: str) -> PoolView:
        """Drain and terminate every node of a pool, then delete the pool."""
        return await self._call("delete_pool", pool=pool, reason=reason)

    async def up(self, capacity: Capacity) -> PoolView:
        """Create a pool with this many GPUs, or resize it."""
        return await self._call("up", capacity=capacity)

    async def cordon(self, node: NodeId, *, reason: str) -> NodeView:
        """Keep new work off a node."""
        return await self._call("cordon", node=node, reason=reason)

    async def uncordon(self, node: NodeId) -> NodeView:
        """Lift a cordon."""
        return await self._call("uncordon", node=node)

    async def drain(self, node: NodeId, *, reason: str) -> NodeView:
        """Move work off a node, and keep the node."""
        return await self._call("drain", node=node, reason=reason)

    async def retire(self, node: NodeId, *, reason: str) -> NodeView:
        """Drain a node and terminate its machine."""
        return await self._call("retire", node=node, reason=reason)

    async def declare_healthy(self, node: NodeId, *, reason: str) -> NodeView:
        """Declare a node healthy despite its failed checks."""
        return await self._call("declare_healthy", node=node, reason=reason)

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: Mapping[str, str] | None = None
    ) -> Command:
        """Issue a command to a node's agent."""
        return await self._call("issue", node=node, kind=kind, parameters=parameters)

    async def get_command(self, command: CommandId) -> Command:
        """Return a command with its status."""
        return await self._call("get_command", command=command)

    async def offers(
        self,
        *,
        gpu_type: str = "",
        gpus: int = 0,
        provider: str | None = None,
        region: str | None = None,
    ) -> Sequence[Offer]:
        """Return offers, cheapest first."""
        return await self._call(
            "offers", gpu_type=gpu_type, gpus=gpus, provider=provider, region=region
        )

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        await self._call("inject", node=node, result=result)

    async def list_incidents(
        self, *, node: NodeId | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Incident]:
        """Return the newest incidents, the latest first."""
        return await self._call("list_incidents", node=node, only_open=only_open, limit=limit)

    async def get_incident(self, incident: IncidentId) -> Incident:
        """Return one incident with all its symptoms."""
        return await self._call("get_incident", incident=incident)

    async def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Recorded]:
        """Return events between two numbers: the oldest in order, or the newest in reverse."""
        return await self._call(
            "events",
            after=after,
            before=before,
            about=about,
            newest_first=newest_first,
            limit=limit,
        )

    async def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        """Yield every revision after the given one, without gaps."""
        call = FLEET_CALLS["watch"]
        request = call.write_request({"after_revision": after_revision})
        call_method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            call.path
        )
        stream = call_method(request, metadata=self._metadata)
        try:
            async for body in stream:
                yield call.read_reply(body)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        finally:
            stream.cancel()
        raise UnreachableError(f"{self._address} ended the watch")

    async def cost(self, by: CostBy = CostBy.POOL, *, since: datetime | None = None) -> CostReport:
        """Return costs and budgets."""
        return await self._call("cost", by=by, since=since)

    async def why(self, about: Subject) -> Why:
        """Return the reasons behind the state of a node, a pool or a launch."""
        return await self._call("why", about=about)

    async def _call(self, method: str, **arguments: object) -> Any:  # noqa: ANN401
        call = FLEET_CALLS[method]
        call_method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            call.path
        )
        try:
            body = await call_method(
                call.write_request(arguments), metadata=self._metadata, timeout=self._timeout_s
            )
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        return call.read_reply(body)

    def _error(self, error: grpc.aio.AioRpcError) -> NavarchError:
        code, text = error.code(), error.details() or ""
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return UnauthenticatedError("the server requires a valid token")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"did not respond within {self._timeout_s:g} s"
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return UnreachableError(f"{self._address}: {text}")
        return error_from(code.name.lower(), text)
