"""The JSON API for operators: one route per use case."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec

from navarch.api.http.exchange import Request
from navarch.api.http.route import Handler, Route, get, listed, post
from navarch.api.http.watch import WatchQuery, stream_updates
from navarch.core.errors import InvalidError
from navarch.core.event import Recorded, Subject, about
from navarch.core.ids import CommandId, IncidentId, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.recovery import Command
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
    before: Annotated[int, msgspec.Meta(ge=0)] | None = None
    newest_first: bool = False
    about: Subject | None = None
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


def fleet_routes(fleet: FleetApi) -> list[Route]:
    """Return every operation of FleetApi."""
    return [*_readings(fleet), *_history(fleet), *_node_actions(fleet), *_pool_actions(fleet)]


def _readings(fleet: FleetApi) -> list[Route]:
    return [
        get("status", "/v1/status", "Summary of the fleet", lambda _: fleet.status(), FleetStatus),
        get(
            "list_nodes",
            "/v1/nodes",
            "List nodes, in pages",
            lambda request: fleet.list_nodes(request.query(Query, labels=True)),
            Page[NodeView],
            Query,
        ),
        get(
            "get_node",
            "/v1/nodes/{node}",
            "One node with its details",
            lambda request: fleet.get_node(_node(request)),
            NodeDetail,
        ),
        get(
            "list_instances",
            "/v1/instances",
            "List machines, in pages",
            lambda request: fleet.list_instances(request.query(Query, labels=True)),
            Page[InstanceView],
            Query,
        ),
        get(
            "get_instance",
            "/v1/instances/{instance}",
            "One machine",
            lambda request: fleet.get_instance(request.names["instance"]),
            InstanceView,
        ),
        get(
            "list_pools",
            "/v1/pools",
            "List pools",
            lambda _: listed(fleet.list_pools()),
            Items[PoolView],
        ),
        get(
            "get_pool",
            "/v1/pools/{pool}",
            "One pool",
            lambda request: fleet.get_pool(_pool(request)),
            PoolView,
        ),
        get(
            "get_command",
            "/v1/commands/{command}",
            "One command",
            lambda request: fleet.get_command(CommandId(request.names["command"])),
            Command,
        ),
    ]


def _history(fleet: FleetApi) -> list[Route]:
    async def incidents(request: Request) -> Items[Incident]:
        query = request.query(IncidentsQuery)
        node = None if query.node is None else NodeId(query.node)
        return await listed(
            fleet.list_incidents(node=node, only_open=query.only_open, limit=query.limit)
        )

    async def events(request: Request) -> Items[Recorded]:
        return await listed(fleet.events(**asdict(request.query(EventsQuery))))

    async def cost(request: Request) -> CostReport:
        query = request.query(CostQuery)
        return await fleet.cost(query.by, since=query.since)

    return [
        get(
            "get_incident",
            "/v1/incidents/{incident}",
            "One incident",
            lambda request: fleet.get_incident(IncidentId(request.names["incident"])),
            Incident,
        ),
        get(
            "why",
            "/v1/why/{kind}/{name}",
            "Reasons for a state",
            lambda request: fleet.why(about(request.names["kind"], request.names["name"])),
            Why,
        ),
        get(
            "list_incidents",
            "/v1/incidents",
            "List incidents, newest first",
            incidents,
            Items[Incident],
            IncidentsQuery,
        ),
        get(
            "events",
            "/v1/events",
            "Read the journal",
            events,
            Items[Recorded],
            EventsQuery,
        ),
        _watch_route(fleet),
        get("cost", "/v1/cost", "Costs so far and for the month", cost, CostReport, CostQuery),
        get(
            "offers",
            "/v1/offers",
            "List offers, with those sold out",
            lambda request: listed(fleet.offers(**asdict(request.query(OffersQuery)))),
            Items[Offer],
            OffersQuery,
        ),
    ]


def _watch_route(fleet: FleetApi) -> Route:
    return Route(
        operation="watch",
        method="GET",
        path="/v1/watch",
        summary="Follow every revision, as lines of JSON or as server-sent events",
        stream=partial(stream_updates, fleet),
        reply=Update,
        query=WatchQuery,
    )


def _node_actions(fleet: FleetApi) -> list[Route]:
    async def uncordon(request: Request) -> NodeView:
        request.json(Reason)
        return await fleet.uncordon(_node(request))

    async def issue(request: Request) -> Command:
        order = request.json(Order)
        return await fleet.issue(_node(request), order.kind, order.parameters)

    async def inject(request: Request) -> None:
        injection = request.json(Injection)
        await fleet.inject(injection.node, injection.result)

    def with_reason(act: Callable[..., Awaitable[NodeView]]) -> Handler:
        return lambda request: act(_node(request), reason=request.json(Reason).reason)

    actions = {
        "cordon": ("Keep new work off a node", with_reason(fleet.cordon)),
        "uncordon": ("Lift a cordon", uncordon),
        "drain": ("Move work off a node, and keep the node", with_reason(fleet.drain)),
        "retire": ("Drain a node and terminate its machine", with_reason(fleet.retire)),
        "declare-healthy": (
            "Declare a node healthy despite its checks",
            with_reason(fleet.declare_healthy),
        ),
    }
    return [
        *(
            post(
                verb.replace("-", "_"),
                f"/v1/nodes/{{node}}:{verb}",
                summary,
                handle,
                NodeView,
                Reason,
            )
            for verb, (summary, handle) in actions.items()
        ),
        post(
            "issue",
            "/v1/nodes/{node}/commands",
            "Issue a command to an agent",
            issue,
            Command,
            Order,
        ),
        post(
            "inject",
            "/v1/sim/inject",
            "Make a simulated machine report a fault",
            inject,
            None,
            Injection,
        ),
    ]


def _pool_actions(fleet: FleetApi) -> list[Route]:
    async def put(request: Request) -> PoolView:
        reason = request.query(Reason).reason
        spec = request.json(PoolSpec)
        if spec.name != _pool(request):
            raise InvalidError("must be the name in the path - at `$.name`")
        return await fleet.put_pool(spec, reason=reason)

    async def delete(request: Request) -> PoolView:
        return await fleet.delete_pool(_pool(request), reason=request.query(Reason).reason)

    async def scale(request: Request) -> PoolView:
        size = request.json(Size)
        return await fleet.scale(_pool(request), size.nodes, reason=size.reason)

    return [
        Route(
            operation="put_pool",
            method="PUT",
            path="/v1/pools/{pool}",
            summary="Create a pool, or change it",
            handle=put,
            reply=PoolView,
            body=PoolSpec,
            query=Reason,
        ),
        Route(
            operation="delete_pool",
            method="DELETE",
            path="/v1/pools/{pool}",
            summary="Drain and terminate every node of a pool, then delete the pool",
            handle=delete,
            reply=PoolView,
            query=Reason,
        ),
        post(
            "scale",
            "/v1/pools/{pool}:scale",
            "Set the size within the pool's bounds",
            scale,
            PoolView,
            Size,
        ),
        post(
            "up",
            "/v1/up",
            "Create or resize a pool with this many GPUs",
            lambda request: fleet.up(request.json(Capacity)),
            PoolView,
            Capacity,
        ),
    ]


def _node(request: Request) -> NodeId:
    return NodeId(request.names["node"])


def _pool(request: Request) -> PoolName:
    return PoolName(request.names["pool"])
