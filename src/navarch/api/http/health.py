"""The JSON API for the fleet's health, deferred actions and recoveries."""

from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.ids import NodeId, PoolName
from navarch.core.recovery import Recovery
from navarch.ports.fleet_health import FleetHealth, FleetHealthApi
from navarch.ports.held import HeldApi, HeldNode
from navarch.wire.bodies import Items, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuery:
    """A filter of deferred actions."""

    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveriesQuery:
    """A filter of recoveries."""

    node: str | None = None


def held_routes(held: HeldApi) -> list[Route]:
    """Return every operation of HeldApi."""

    async def list_held(request: Request) -> Items[HeldNode]:
        pool = request.query(HeldQuery).pool
        return await listed(held.list_held(pool=PoolName(pool) if pool else None))

    async def release(request: Request) -> Items[HeldNode]:
        body = request.json(Release)
        return await listed(held.release_held(body.nodes, pool=body.pool, reason=body.reason))

    async def recoveries(request: Request) -> Items[Recovery]:
        node = request.query(RecoveriesQuery).node
        return await listed(held.list_recoveries(node=NodeId(node) if node else None))

    return [
        get(
            "/v1/held",
            "List the nodes with a deferred action",
            list_held,
            Items[HeldNode],
            HeldQuery,
        ),
        post(
            "/v1/held:release",
            "Release the deferred actions of some nodes, or of a whole pool",
            release,
            Items[HeldNode],
            Release,
        ),
        get(
            "/v1/recoveries",
            "List attempts to recover machines, newest first",
            recoveries,
            Items[Recovery],
            RecoveriesQuery,
        ),
    ]


def fleet_health_routes(health: FleetHealthApi) -> list[Route]:
    """Return every operation of FleetHealthApi."""
    return [
        get(
            "/v1/fleet-health",
            "Health by pool, the machines that fail most, and failure rates",
            lambda _: health.fleet_health(),
            FleetHealth,
        )
    ]
