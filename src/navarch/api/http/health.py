"""The JSON API for the fleet's health, deferred actions and recoveries."""

from collections.abc import Iterable
from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
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


class HeldRoutes:
    """The routes of HeldApi."""

    def __init__(self, held: HeldApi) -> None:
        self._held = held

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="GET",
            path="/v1/held",
            summary="List the nodes with a deferred action",
            handle=self._list,
            reply=Items[HeldNode],
            query=HeldQuery,
        )
        yield Route(
            method="POST",
            path="/v1/held:release",
            summary="Release the deferred actions of some nodes, or of a whole pool",
            handle=self._release,
            reply=Items[HeldNode],
            body=Release,
        )
        yield Route(
            method="GET",
            path="/v1/recoveries",
            summary="List attempts to recover machines, newest first",
            handle=self._recoveries,
            reply=Items[Recovery],
            query=RecoveriesQuery,
        )

    async def _list(self, request: Request) -> Items[HeldNode]:
        pool = request.query(HeldQuery).pool
        found = await self._held.list_held(pool=PoolName(pool) if pool else None)
        return Items(items=tuple(found))

    async def _release(self, request: Request) -> Items[HeldNode]:
        body = request.json(Release)
        found = await self._held.release_held(body.nodes, pool=body.pool, reason=body.reason)
        return Items(items=tuple(found))

    async def _recoveries(self, request: Request) -> Items[Recovery]:
        node = request.query(RecoveriesQuery).node
        found = await self._held.list_recoveries(node=NodeId(node) if node else None)
        return Items(items=tuple(found))


class FleetHealthRoutes:
    """The routes of FleetHealthApi."""

    def __init__(self, health: FleetHealthApi) -> None:
        self._health = health

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="GET",
            path="/v1/fleet-health",
            summary="Health by pool, the machines that fail most, and failure rates",
            handle=self._get,
            reply=FleetHealth,
        )

    async def _get(self, _request: Request) -> FleetHealth:
        return await self._health.fleet_health()
