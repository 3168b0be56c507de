"""The JSON API for operators: one route per use case."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec

from navarch.api.http.exchange import Request
from navarch.api.http.route import Handler, Route
from navarch.api.http.watch import WatchQuery, stream_updates
from navarch.core.command import Command
from navarch.core.errors import InvalidError
from navarch.core.event import Recorded, Subject, about
from navarch.core.ids import CommandId, IncidentId, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.ports.api import (
    Capacity,
    CostBy,
    CostReport,
    FleetApi,
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
from navarch.wire.bodies import Injection, Items, Order, Reason, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """A part of the journal."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    about: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentsQuery:
    """A filter of incidents."""

    node: str | None = None
    only_open: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuery:
    """The grouping and the start of a cost report."""

    by: CostBy = CostBy.POOL
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersQuery:
    """A filter of offers: any type if empty, any number if zero."""

    gpu_type: str = ""
    gpus: int = 0
    provider: str | None = None
    region: str | None = None


class FleetRoutes:
    """The routes of FleetApi."""

    def __init__(self, fleet: FleetApi) -> None:
        self._fleet = fleet

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield from self._readings()
        yield from self._reports()
        yield from self._node_actions()
        yield from self._pool_actions()

    def _readings(self) -> Iterable[Route]:
        yield _get("/v1/status", "Summary of the fleet", self._status, FleetStatus)
        yield _list("/v1/nodes", "List nodes, in pages", self._list_nodes, Page[NodeView], Query)
        yield _get("/v1/nodes/{node}", "One node with its details", self._get_node, NodeDetail)
        yield _list(
            "/v1/instances",
            "List machines, in pages",
            self._list_instances,
            Page[InstanceView],
            Query,
        )
        yield _get("/v1/instances/{instance}", "One machine", self._get_instance, InstanceView)
        yield _get("/v1/pools", "List pools", self._list_pools, Items[PoolView])
        yield _get("/v1/pools/{pool}", "One pool", self._get_pool, PoolView)
        yield _get("/v1/commands/{command}", "One command", self._get_command, Command)
        yield _get("/v1/incidents/{incident}", "One incident", self._get_incident, Incident)
        yield _get("/v1/why/{kind}/{name}", "Reasons for a state", self._why, Why)

    def _reports(self) -> Iterable[Route]:
        yield _list(
            "/v1/incidents",
            "List incidents, newest first",
            self._list_incidents,
            Items[Incident],
            IncidentsQuery,
        )
        yield _list(
            "/v1/events",
            "Read the journal, oldest first",
            self._events,
            Items[Recorded],
            EventsQuery,
        )
        yield Route(
            method="GET",
            path="/v1/watch",
            summary="Follow every revision, as lines of JSON or as server-sent events",
            stream=partial(stream_updates, self._fleet),
            reply=Update,
            query=WatchQuery,
        )
        yield _list("/v1/cost", "Costs so far and for the month", self._cost, CostReport, CostQuery)
        yield _list(
            "/v1/offers",
            "List offers, with those sold out",
            self._offers,
            Items[Offer],
            OffersQuery,
        )

    def _node_actions(self) -> Iterable[Route]:
        for verb, summary, handle in (
            ("cordon", "Keep new work off a node", self._cordon),
            ("uncordon", "Lift a cordon", self._uncordon),
            ("drain", "Move work off a node, and keep the node", self._drain),
            ("retire", "Drain a node and terminate its machine", self._retire),
            ("declare-healthy", "Declare a node healthy despite its checks", self._declare_healthy),
        ):
            yield _post(f"/v1/nodes/{{node}}:{verb}", summary, handle, NodeView, Reason)
        yield _post(
            "/v1/nodes/{node}/commands", "Issue a command to an agent", self._issue, Command, Order
        )
        yield _post(
            "/v1/sim/inject",
            "Make a simulated machine report a fault",
            self._inject,
            None,
            Injection,
        )

    def _pool_actions(self) -> Iterable[Route]:
        yield Route(
            method="PUT",
            path="/v1/pools/{pool}",
            summary="Create a pool, or change it",
            handle=self._put_pool,
            reply=PoolView,
            body=PoolSpec,
            query=Reason,
        )
        yield Route(
            method="DELETE",
            path="/v1/pools/{pool}",
            summary="Drain and terminate every node of a pool, then delete the pool",
            handle=self._delete_pool,
            reply=PoolView,
            query=Reason,
        )
        yield _post(
            "/v1/pools/{pool}:scale",
            "Set the size within the pool's bounds",
            self._scale,
            PoolView,
            Size,
        )
        yield _post(
            "/v1/up", "Create or resize a pool with this many GPUs", self._up, PoolView, Capacity
        )

    async def _status(self, request: Request) -> FleetStatus:
        request.query(_Nothing)
        return await self._fleet.status()

    async def _list_nodes(self, request: Request) -> Page[NodeView]:
        return await self._fleet.list_nodes(request.query(Query, labels=True))

    async def _get_node(self, request: Request) -> NodeDetail:
        return await self._fleet.get_node(_node(request))

    async def _list_instances(self, request: Request) -> Page[InstanceView]:
        return await self._fleet.list_instances(request.query(Query, labels=True))

    async def _get_instance(self, request: Request) -> InstanceView:
        return await self._fleet.get_instance(request.names["instance"])

    async def _list_pools(self, _request: Request) -> Items[PoolView]:
        return Items(items=tuple(await self._fleet.list_pools()))

    async def _get_pool(self, request: Request) -> PoolView:
        return await self._fleet.get_pool(_pool(request))

    async def _put_pool(self, request: Request) -> PoolView:
        reason = request.query(Reason).reason
        spec = request.json(PoolSpec)
        if spec.name != _pool(request):
            raise InvalidError("must be the name in the path - at `$.name`")
        return await self._fleet.put_pool(spec, reason=reason)

    async def _scale(self, request: Request) -> PoolView:
        size = request.json(Size)
        return await self._fleet.scale(_pool(request), size.nodes, reason=size.reason)

    async def _delete_pool(self, request: Request) -> PoolView:
        return await self._fleet.delete_pool(_pool(request), reason=request.query(Reason).reason)

    async def _up(self, request: Request) -> PoolView:
        return await self._fleet.up(request.json(Capacity))

    async def _cordon(self, request: Request) -> NodeView:
        return await self._fleet.cordon(_node(request), reason=request.json(Reason).reason)

    async def _uncordon(self, request: Request) -> NodeView:
        request.json(Reason)
        return await self._fleet.uncordon(_node(request))

    async def _drain(self, request: Request) -> NodeView:
        return await self._fleet.drain(_node(request), reason=request.json(Reason).reason)

    async def _retire(self, request: Request) -> NodeView:
        return await self._fleet.retire(_node(request), reason=request.json(Reason).reason)

    async def _declare_healthy(self, request: Request) -> NodeView:
        reason = request.json(Reason).reason
        return await self._fleet.declare_healthy(_node(request), reason=reason)

    async def _issue(self, request: Request) -> Command:
        order = request.json(Order)
        return await self._fleet.issue(_node(request), order.kind, order.parameters)

    async def _get_command(self, request: Request) -> Command:
        return await self._fleet.get_command(CommandId(request.names["command"]))

    async def _inject(self, request: Request) -> None:
        injection = request.json(Injection)
        await self._fleet.inject(injection.node, injection.result)

    async def _list_incidents(self, request: Request) -> Items[Incident]:
        query = request.query(IncidentsQuery)
        node = None if query.node is None else NodeId(query.node)
        found = await self._fleet.list_incidents(
            node=node, only_open=query.only_open, limit=query.limit
        )
        return Items(items=tuple(found))

    async def _get_incident(self, request: Request) -> Incident:
        return await self._fleet.get_incident(IncidentId(request.names["incident"]))

    async def _events(self, request: Request) -> Items[Recorded]:
        query = request.query(EventsQuery)
        subject = None if query.about is None else Subject(query.about)
        found = await self._fleet.events(after=query.after, about=subject, limit=query.limit)
        return Items(items=tuple(found))

    async def _cost(self, request: Request) -> CostReport:
        query = request.query(CostQuery)
        return await self._fleet.cost(query.by, since=query.since)

    async def _offers(self, request: Request) -> Items[Offer]:
        query = request.query(OffersQuery)
        found = await self._fleet.offers(
            gpu_type=query.gpu_type,
            gpus=query.gpus,
            provider=query.provider,
            region=query.region,
        )
        return Items(items=tuple(found))

    async def _why(self, request: Request) -> Why:
        return await self._fleet.why(about(request.names["kind"], request.names["name"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nothing:
    """No parameters."""


def _node(request: Request) -> NodeId:
    return NodeId(request.names["node"])


def _pool(request: Request) -> PoolName:
    return PoolName(request.names["pool"])


def _get(path: str, summary: str, handle: Handler, reply: object) -> Route:
    return Route(method="GET", path=path, summary=summary, handle=handle, reply=reply)


def _list(path: str, summary: str, handle: Handler, reply: object, query: type) -> Route:
    return Route(
        method="GET",
        path=path,
        summary=summary,
        handle=handle,
        reply=reply,
        query=query,
        labels=query is Query,
    )


def _post(path: str, summary: str, handle: Handler, reply: object, body: object) -> Route:
    return Route(method="POST", path=path, summary=summary, handle=handle, reply=reply, body=body)
